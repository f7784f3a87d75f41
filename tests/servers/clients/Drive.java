import co.elastic.clients.elasticsearch.ElasticsearchClient;
import co.elastic.clients.elasticsearch._helpers.bulk.BulkIngester;
import co.elastic.clients.elasticsearch._helpers.bulk.BulkListener;
import co.elastic.clients.elasticsearch._types.ElasticsearchException;
import co.elastic.clients.elasticsearch.core.BulkRequest;
import co.elastic.clients.elasticsearch.core.BulkResponse;
import co.elastic.clients.elasticsearch.core.bulk.BulkOperation;
import co.elastic.clients.elasticsearch.core.bulk.BulkResponseItem;
import co.elastic.clients.json.JsonpUtils;
import co.elastic.clients.json.SimpleJsonpMapper;
import co.elastic.clients.transport.BackoffPolicy;
import co.elastic.clients.transport.TransportException;
import co.elastic.clients.util.BinaryData;
import co.elastic.clients.util.ContentType;
import jakarta.json.Json;
import jakarta.json.JsonArrayBuilder;
import jakarta.json.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.stream.Stream;

/**
 * Writes actions through the BulkIngester of elasticsearch-java, as any user of that client would.
 *
 * <p>The only argument is a JSON object:
 * <pre>
 *   url, index      where to write
 *   chunk           operations of a request
 *   concurrency     how many requests may be in flight
 *   actions         path of a file with one {"op", "id", "body"} a line ("body" is missing for a delete)
 *   stop_at         take no more actions than these, and wait to be killed (missing: take all)
 * </pre>
 * Standard output: "read N" as the helper takes its actions, "stopped" where it is to be killed, at the end one JSON
 * object with "succeeded" and "errors".
 */
public final class Drive {
    // Enough for any fault that a test provokes, however long it takes; the pauses are short so that the tests are.
    static final int RETRIES = 1000;
    static final long PAUSE_MS = 50;
    /** Statuses of a whole request that is to be sent again. */
    static final Set<Integer> BUSY = Set.of(429, 502, 503, 504);

    private final String index;
    private final int concurrency;
    /** Operations of a request. */
    private final int chunk;
    private int succeeded;
    private final JsonArrayBuilder errors = Json.createArrayBuilder();
    /** What requests that failed as a whole had in them: the helper leaves it to its listener to add them again. */
    private final List<String> again = new ArrayList<>();
    private Throwable fatal;

    private Drive(String index, int concurrency, int chunk) {
        this.index = index;
        this.concurrency = concurrency;
        this.chunk = chunk;
    }

    public static void main(String[] arguments) throws Exception {
        JsonObject job = parse(arguments[0]);
        int stopAt = job.isNull("stop_at") ? -1 : job.getInt("stop_at");
        Drive drive = new Drive(job.getString("index"), job.getInt("concurrency"), job.getInt("chunk"));
        try (ElasticsearchClient client = new ElasticsearchClient(Connect.to(job.getString("url")));
                BufferedReader lines = Files.newBufferedReader(Path.of(job.getString("actions")))) {
            drive.write(client, drive.reporting(lines.lines(), stopAt).iterator());
            for (int left = RETRIES; !drive.again.isEmpty(); left--) {
                if (left == 0) {
                    throw new IllegalStateException("requests fail again and again");
                }
                Thread.sleep(PAUSE_MS);
                List<String> actions = List.copyOf(drive.again);
                drive.again.clear();
                drive.write(client, actions.iterator());
            }
        }
        JsonObject outcome =
            Json.createObjectBuilder().add("succeeded", drive.succeeded).add("errors", drive.errors).build();
        System.out.println(outcome);
    }

    private Stream<String> reporting(Stream<String> actions, int stopAt) {
        int[] count = {0};
        return actions.peek(action -> {
            if (count[0] == stopAt) {
                System.out.println("stopped");
                try {
                    // Standard input never ends while the test runs.
                    System.in.read();
                } catch (IOException closed) {
                    throw new IllegalStateException(closed);
                }
            }
            if (count[0] % chunk == 0) {
                System.out.println("read " + count[0]);
            }
            count[0] += 1;
        });
    }

    /** All actions through one ingester; returns when each has its answer. */
    private void write(ElasticsearchClient client, Iterator<String> actions) throws Exception {
        BulkIngester<String> ingester = BulkIngester.of(builder -> builder
            .client(client)
            .maxOperations(chunk)
            .maxConcurrentRequests(concurrency)
            .backoffPolicy(BackoffPolicy.constantBackoff(PAUSE_MS, RETRIES))
            .listener(new Listener()));
        try (ingester) {
            while (actions.hasNext()) {
                String line = actions.next();
                ingester.add(operation(line), line);
            }
        }
        if (fatal != null) {
            throw new IllegalStateException(fatal);
        }
    }

    private BulkOperation operation(String line) {
        JsonObject action = parse(line);
        String id = action.getString("id");
        // As it stands there: nothing is lost of numbers that Java would round.
        int at = line.indexOf("\"body\":");
        BinaryData body = at < 0 ? null : BinaryData.of(
            line.substring(at + "\"body\":".length(), line.length() - 1).getBytes(StandardCharsets.UTF_8),
            ContentType.APPLICATION_JSON);
        String op = action.getString("op");
        return BulkOperation.of(builder -> switch (op) {
            case "index" -> builder.index(index -> index.index(this.index).id(id).document(body));
            case "create" -> builder.create(create -> create.index(this.index).id(id).document(body));
            case "update" -> builder.update(update -> update.index(this.index).id(id).binaryAction(body));
            case "delete" -> builder.delete(delete -> delete.index(this.index).id(id));
            default -> throw new IllegalArgumentException(op);
        });
    }

    private static JsonObject parse(String text) {
        return Json.createReader(new StringReader(text)).readObject();
    }

    private final class Listener implements BulkListener<String> {
        @Override
        public void beforeBulk(long executionId, BulkRequest request, List<String> actions) {}

        @Override
        public void afterBulk(long executionId, BulkRequest request, List<String> actions, BulkResponse response) {
            synchronized (Drive.this) {
                for (BulkResponseItem item : response.items()) {
                    if (item.error() == null && item.status() < 300) {
                        succeeded += 1;
                    } else {
                        errors.add(parse(JsonpUtils.toJsonString(item, new SimpleJsonpMapper())));
                    }
                }
            }
        }

        @Override
        public void afterBulk(long executionId, BulkRequest request, List<String> actions, Throwable failure) {
            synchronized (Drive.this) {
                if (isPassing(failure)) {
                    again.addAll(actions);
                } else {
                    fatal = failure;
                }
            }
        }
    }

    /** A connection that broke, or a status that asks for another attempt. */
    private static boolean isPassing(Throwable failure) {
        if (failure instanceof CompletionException) {
            return isPassing(failure.getCause());
        }
        if (failure instanceof ElasticsearchException refused) {
            return BUSY.contains(refused.status());
        }
        if (failure instanceof TransportException strange) {
            return BUSY.contains(strange.statusCode());
        }
        return failure instanceof IOException;
    }
}
