"""FAISS IndexBinaryMultiHash, measured as our index is: faiss_index.py FOLDER DIST, with the folder that
scripts/bench index made. Four tables by 16 bits find everything within 3 bits without flips."""

import json
import os
import sys
import time

import faiss
import numpy as np

NEAR = 3
LONGEST = 30.0


def resident_bytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise SystemExit("faiss: Linux tells the memory of a process")


def codes(folder, name):
    return np.fromfile(os.path.join(folder, name), dtype="<u8")


def rows(words):
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)


def main():
    folder, dist = sys.argv[1:]
    faiss.omp_set_num_threads(1)
    nodes, queries = codes(folder, "nodes"), codes(folder, "queries")
    truth = codes(folder, f"truth-{NEAR}").reshape(-1, 2)

    print("FAISS: filling", file=sys.stderr)
    before, started = resident_bytes(), time.process_time()
    index = faiss.IndexBinaryMultiHash(64, 4, 16)
    for at in range(0, len(nodes), 1 << 16):
        index.add(rows(nodes[at:at + (1 << 16)]))
    insert_per_s = len(nodes) / (time.process_time() - started)
    bytes_per_node = (resident_bytes() - before) / len(nodes)

    print("FAISS: looking up", file=sys.stderr)
    # Its radius is the first distance that is not near.
    limits, _, ids = index.range_search(rows(queries[:len(truth)]), NEAR + 1)
    exact = True
    for (count, total), begin, end in zip(truth, limits[:-1], limits[1:]):
        found = nodes[ids[begin:end]]
        exact &= bool(len(found) == count and np.bitwise_xor.reduce(found, initial=0) == total)

    started, done = time.process_time(), 0
    while done < len(queries) and time.process_time() - started < LONGEST:
        index.range_search(rows(queries[done:done + 1_000]), NEAR + 1)
        done += len(queries[done:done + 1_000])
    lookups_per_s = done / (time.process_time() - started)

    times, begun = [], time.perf_counter()
    for query in queries:
        one = rows(query.reshape(1))
        started = time.perf_counter()
        index.range_search(one, NEAR + 1)
        times.append(time.perf_counter() - started)
        if time.perf_counter() - begun > LONGEST:
            break
    p50, p99 = np.quantile(np.array(times) * 1e6, [0.5, 0.99])
    print(json.dumps({
        "bench": "index",
        "impl": "FAISS IndexBinaryMultiHash 4x16",
        "dist": dist,
        "nodes": len(nodes),
        "insert_per_s": round(insert_per_s),
        "lookups_per_s_batched": round(lookups_per_s),
        "lookup_p50_us": round(float(p50), 2),
        "lookup_p99_us": round(float(p99), 2),
        "placements_per_s": None,
        "bytes_per_node": round(bytes_per_node, 2),
        "exact": exact,
    }, separators=(",", ":")))
    if not exact:
        raise SystemExit("FAISS finds what a scan does not")


if __name__ == "__main__":
    main()
