// Writes actions through the bulk helper of opensearch-js or elasticsearch-js, as any user of that client would.
//
// The only argument is a JSON object:
//   url, index      where to write
//   library         "opensearch", "elasticsearch-8" or "elasticsearch-9"
//   connection      "HttpConnection" or "UndiciConnection" (elasticsearch-js only)
//   chunk           documents of a request, about
//   concurrency     how many requests may be in flight
//   actions         path of a file with one {"op", "id", "body"} a line ("body" is missing for a delete)
//   stop_at         take no more actions than these, and wait to be killed (missing: take all)
// Standard output: "read N" as the helper takes its actions, "stopped" where it is to be killed, at the end one JSON object
// with "succeeded" and "errors".
'use strict';

const { once } = require('node:events');
const fs = require('node:fs');
const readline = require('node:readline');

// Of a document in a request, about.
const DOCUMENT_BYTES = 1200;
// Enough for any fault that a test provokes, however long it takes; the pauses are short so that the tests are.
const RETRIES = 1000;
const PAUSE_MS = 50;

// A client, and how to read a line of the file of actions.
function openSearch(job) {
  const { Client } = require('@opensearch-project/opensearch');
  const client = new Client({
    node: job.url,
    compression: 'gzip',
    suggestCompression: true,
    maxRetries: RETRIES,
    requestTimeout: 60_000,
    // Integers beyond 2^53 stay exact.
    enableLongNumeralSupport: true,
  });
  return { client, parse: (line) => client.serializer.deserialize(line) };
}

function elasticsearch(job) {
  const elastic = require('@elastic/elasticsearch');
  const client = new elastic.Client({
    node: job.url,
    Connection: elastic[job.connection],
    compression: true,
    maxRetries: RETRIES,
    retryBackoff: () => PAUSE_MS / 1000,
    requestTimeout: 60_000,
  });
  return { client, parse };
}

// The document of an index or create is its own text: this client has no other way to keep integers beyond 2^53 exact.
function parse(line) {
  const action = JSON.parse(line);
  if (action.op === 'index' || action.op === 'create') {
    const key = '"body":';
    action.body = line.slice(line.indexOf(key) + key.length, -1);
  }
  return action;
}

async function* actions(job, parse) {
  let count = 0;
  for await (const line of readline.createInterface({ input: fs.createReadStream(job.actions) })) {
    if (count === job.stop_at) {
      console.log('stopped');
      // Standard input never ends while the test runs.
      await once(process.stdin.resume(), 'end');
    }
    if (count % job.chunk === 0) {
      console.log(`read ${count}`);
    }
    count += 1;
    yield parse(line);
  }
}

async function main() {
  const job = JSON.parse(process.argv[2]);
  const { client, parse } = job.library === 'opensearch' ? openSearch(job) : elasticsearch(job);
  const errors = [];
  const stats = await client.helpers.bulk({
    datasource: actions(job, parse),
    flushBytes: job.chunk * DOCUMENT_BYTES,
    concurrency: job.concurrency,
    retries: RETRIES,
    wait: PAUSE_MS,
    onDocument({ op, id, body }) {
      const action = { [op]: { _index: job.index, _id: id } };
      return op === 'delete' ? action : [action, body];
    },
    onDrop({ status, error, operation }) {
      const [[op, { _index, _id }]] = Object.entries(operation);
      errors.push({ [op]: { _index, _id, status, error } });
    },
  });
  await client.close();
  console.log(JSON.stringify({ succeeded: stats.successful, errors }));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
