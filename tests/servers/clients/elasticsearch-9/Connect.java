import co.elastic.clients.json.SimpleJsonpMapper;
import co.elastic.clients.transport.BackoffPolicy;
import co.elastic.clients.transport.ElasticsearchTransport;
import co.elastic.clients.transport.ElasticsearchTransportConfig;

/** The default transport of elasticsearch-java 9, which sends a request again by itself. */
final class Connect {
    static ElasticsearchTransport to(String url) {
        return new ElasticsearchTransportConfig.Builder()
            .host(url)
            .useCompression(true)
            .jsonMapper(new SimpleJsonpMapper())
            .retryConfig(retry -> retry.backoffPolicy(BackoffPolicy.constantBackoff(Drive.PAUSE_MS, Drive.RETRIES)))
            .build()
            .buildTransport();
    }
}
