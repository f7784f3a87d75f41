import co.elastic.clients.json.SimpleJsonpMapper;
import co.elastic.clients.transport.ElasticsearchTransport;
import co.elastic.clients.transport.rest_client.RestClientTransport;
import org.apache.http.HttpHost;
import org.elasticsearch.client.RestClient;

/** The transport of elasticsearch-java 8. It never sends a request again: {@link Drive} does. */
final class Connect {
    static ElasticsearchTransport to(String url) {
        RestClient client = RestClient.builder(HttpHost.create(url)).setCompressionEnabled(true).build();
        return new RestClientTransport(client, new SimpleJsonpMapper());
    }
}
