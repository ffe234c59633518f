package org.apache.kafka.common.test.junit;

import org.apache.kafka.common.test.api.ClusterConfig;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.util.List;

/**
 * Stands before Kafka's own class of this name on the class path: where that starts brokers inside the test's
 * process, this one starts the broker under test beside it, one for each test.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        return String.format("%s [%d] %s %s", name, index, combined ? "combined" : "isolated", String.join(",", config.displayTags()));
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OutsideCluster cluster = new OutsideCluster(config, combined);
        return List.of(
            (BeforeEachCallback) context -> {
                cluster.check();
                if (config.isAutoStart()) cluster.start();
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }
}
