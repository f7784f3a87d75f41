"""Writes actions through one bulk helper of a real Python client, as any user of that client would.

The only argument is a JSON object:
    url, index           where to write
    actions              path of a file with one {"op", "id", "body"} a line ("body" is missing for a delete)
    library              "opensearch" (opensearch-py), "elasticsearch" (elasticsearch-py 7), "elasticsearch-8" or
                         "elasticsearch-9" (elasticsearch-py of that version)
    helper               "bulk", "streaming_bulk", "parallel_bulk" or "async_bulk"
    chunk                documents of a request
    concurrency          how many requests may be in flight ("parallel_bulk" only, the others have one)
    raise_on_error       what the helper's option of this name says
    stop_at              take no more actions than these, and wait to be killed (missing: take all)
Standard output: "read N" as the helper takes its actions, "stopped" where it is to be killed, at the end one JSON
object with "succeeded" and "errors".
"""

import asyncio
import json
import sys
from collections import deque

# Enough for any fault that a test provokes, however long it takes; the pauses are short so that the tests are.
RETRIES = 1000
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.5


def actions(job):
    with open(job["actions"], encoding="utf-8") as lines:
        for count, line in enumerate(lines):
            if count == job.get("stop_at"):
                print("stopped", flush=True)
                # Standard input never ends while the test runs.
                sys.stdin.read()
            if count % job["chunk"] == 0:
                print("read", count, flush=True)
            entry = json.loads(line)
            action = {"_op_type": entry["op"], "_index": job["index"], "_id": entry["id"]}
            if entry["op"] == "update":
                action.update(entry["body"])
            elif entry["op"] != "delete":
                action["_source"] = entry["body"]
            yield action


def client_options(job):
    statuses = [502, 503, 504]
    if job["helper"] == "parallel_bulk":
        # This helper leaves every retry to the transport.
        statuses.append(429)
    timeout = "request_timeout" if "-" in job["library"] else "timeout"
    return {
        "hosts": [job["url"]],
        "http_compress": True,
        "max_retries": RETRIES,
        "retry_on_status": statuses,
        "retry_on_timeout": True,
        timeout: 60,
    }


def helper_options(job):
    options = {"chunk_size": job["chunk"], "raise_on_error": job["raise_on_error"]}
    if job["helper"] == "parallel_bulk":
        options["thread_count"] = job["concurrency"]
    else:
        options["max_retries"] = RETRIES
        options["initial_backoff"] = FIRST_PAUSE_S
        options["max_backoff"] = LONGEST_PAUSE_S
    return options


def write(job):
    if job["library"] == "opensearch":
        from opensearchpy import OpenSearch as Client
        from opensearchpy import helpers
    else:
        from elasticsearch import Elasticsearch as Client
        from elasticsearch import helpers

    client = Client(**client_options(job))
    options = helper_options(job)
    if job["helper"] == "bulk":
        return helpers.bulk(client, actions(job), **options)
    helper = getattr(helpers, job["helper"])
    succeeded, errors = 0, deque()
    for ok, item in helper(client, actions(job), **options):
        if ok:
            succeeded += 1
        else:
            errors.append(item)
    return succeeded, list(errors)


async def write_async(job):
    if job["library"] == "opensearch":
        from opensearchpy import AsyncOpenSearch as Client
        from opensearchpy.helpers import async_bulk
    else:
        from elasticsearch import AsyncElasticsearch as Client
        from elasticsearch.helpers import async_bulk

    async with Client(**client_options(job)) as client:
        return await async_bulk(client, actions(job), **helper_options(job))


def main():
    job = json.loads(sys.argv[1])
    if job["helper"] == "async_bulk":
        succeeded, errors = asyncio.run(write_async(job))
    else:
        succeeded, errors = write(job)
    print(json.dumps({"succeeded": succeeded, "errors": errors}), flush=True)


main()
