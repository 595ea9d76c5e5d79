// A node of OpenSearch by itself: HOME, the port of HTTP, that of transport, then settings NAME=VALUE.

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.percolator.PercolatorPlugin;
import org.opensearch.transport.Netty4Plugin;

class Node extends org.opensearch.node.Node {
    Node(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, PercolatorPlugin.class), false);
    }

    public static void main(String[] given) throws Exception {
        Settings.Builder settings = Settings.builder()
            .put("path.home", given[0])
            .put("http.port", given[1])
            .put("transport.port", given[2])
            .put("network.host", "127.0.0.1")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (int at = 3; at < given.length; at++) {
            String[] parts = given[at].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings.build(), Map.of(), Path.of(given[0], "config"), () -> "node");
        Node node = new Node(environment);
        node.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception failed) {
                failed.printStackTrace();
            }
        }));
        new CountDownLatch(1).await();
    }
}
