"""MinHashLSH of datasketch with its tables in Redis: the peer of scripts/bench shared.

  peer_datasketch.py HOST:PORT DOCS

128 permutations, a threshold of 0.5. The signatures are made before the clock runs, of generated documents of 2 KB, 45
of 100 a reprint of an earlier one. A placement is what spinney does with a document: a look-up, and an insertion.
"""

import json
import sys
import time

import redis
from datasketch import MinHash, MinHashLSH

from common import Texts

PERMUTATIONS, THRESHOLD = 128, 0.5


def signature(source):
    words = f"{source['title']} {source['content']}".split()
    found = MinHash(num_perm=PERMUTATIONS)
    found.update_batch([" ".join(words[at : at + 3]).encode() for at in range(len(words) - 2)])
    return found


def main():
    host, _, port = sys.argv[1].partition(":")
    docs = int(sys.argv[2])
    texts = Texts(words=(290, 330))
    signatures = [signature(texts.next(number)) for number in range(docs)]
    server = redis.Redis(host, int(port))
    for how in ("look-up and insert", "insert", "insert in a session"):
        server.flushall()
        memory = server.info("memory")["used_memory"]
        cpu = lambda: sum(server.info("cpu")[name] for name in ("used_cpu_user", "used_cpu_sys"))
        lsh = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, storage_config={
            "type": "redis", "basename": how.replace(" ", "-").encode(), "redis": {"host": host, "port": int(port)},
        })
        found, spent, begun, own = 0, cpu(), time.monotonic(), time.process_time()
        if how == "insert in a session":
            with lsh.insertion_session(buffer_size=5000) as session:
                for number, minhash in enumerate(signatures):
                    session.insert(str(number), minhash, check_duplication=False)
        else:
            for number, minhash in enumerate(signatures):
                if how == "look-up and insert":
                    found += bool(lsh.query(minhash))
                lsh.insert(str(number), minhash, check_duplication=False)
        seconds, own, spent = time.monotonic() - begun, time.process_time() - own, cpu() - spent
        print(json.dumps({
            "bench": "shared", "part": "peer", "peer": "datasketch MinHashLSH", "how": how, "docs": docs,
            "permutations": PERMUTATIONS, "bands": lsh.b, "docs_per_s": round(docs / seconds),
            "redis_cpu_ms_per_1000_docs": round(spent * 1e6 / docs, 1),
            "client_cpu_ms_per_1000_docs": round(own * 1e6 / docs, 1),
            "bytes_per_doc": round((server.info("memory")["used_memory"] - memory) / docs),
            "joined": round(found / docs, 3),
        }), flush=True)


main()
