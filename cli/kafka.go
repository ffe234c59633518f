package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/hawserio/hawser/auth/stores"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
)

const (
	// askTime bounds the question to Kafka where REST is.
	askTime = 20 * time.Second
	// advertisedKey is the broker config that says where REST is.
	advertisedKey = "hawser.http.advertised"
	brokerConfigs = kmsg.ConfigResourceType(4) // the resource BROKER of DescribeConfigs
)

func (d *door) readCommandConfig() error {
	if d.commandConfig == "" || d.kafka != nil {
		return nil
	}
	d.kafka = map[string]string{}
	if err := readProperties(d.commandConfig, d.kafka); err != nil {
		return fmt.Errorf("--command-config: %w", err)
	}
	return nil
}

// kafkaOptions is how to reach Kafka: addresses, and the login and TLS of --command-config.
func (d *door) kafkaOptions(bootstrap string) ([]kgo.Opt, error) {
	seeds, err := seedsOf(bootstrap)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("hawser-cli"), kgo.RetryTimeout(askTime)}
	protocol := strings.ToUpper(orElse(d.kafka["security.protocol"], "PLAINTEXT"))
	switch protocol {
	case "PLAINTEXT", "SASL_PLAINTEXT":
	case "SSL", "SASL_SSL":
		settings, err := tlsOf(d.kafka)
		if err != nil {
			return nil, err
		}
		config, err := clientTLS(settings)
		if err != nil {
			return nil, fmt.Errorf("--command-config: %w", err)
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	default:
		return nil, fmt.Errorf("--command-config: security.protocol is %q; it must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", protocol)
	}
	if strings.HasPrefix(protocol, "SASL_") {
		login, err := d.mechanism()
		if err != nil {
			return nil, fmt.Errorf("--command-config: %w", err)
		}
		opts = append(opts, login)
	}
	return opts, nil
}

func seedsOf(bootstrap string) ([]string, error) {
	var seeds []string
	for _, address := range strings.Split(bootstrap, ",") {
		address = strings.TrimSpace(address)
		if _, after, ok := strings.Cut(address, "://"); ok {
			address = after
		}
		if address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("--bootstrap-server %q is not HOST:PORT, as 127.0.0.1:9092", address)
		}
		seeds = append(seeds, address)
	}
	if len(seeds) == 0 {
		return nil, errors.New("--bootstrap-server is empty. Give HOST:PORT of a Kafka listener, as 127.0.0.1:9092")
	}
	return seeds, nil
}

const jaasExample = `org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";`

// mechanism is the login of --command-config.
func (d *door) mechanism() (kgo.Opt, error) {
	user, password := saslUser(d.kafka)
	if _, err := config.ParseJAAS(d.kafka["sasl.jaas.config"]); user == "" && err != nil {
		return nil, fmt.Errorf("read sasl.jaas.config: %w. Write it as Java clients do: "+jaasExample, err)
	}
	if user == "" {
		return nil, errors.New("sasl.jaas.config names no username. Write it as Java clients do: " + jaasExample)
	}
	switch name := strings.ToUpper(orElse(d.kafka["sasl.mechanism"], "PLAIN")); name {
	case "PLAIN":
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()), nil
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), nil
	default:
		return nil, fmt.Errorf("sasl.mechanism %s is not spoken here; PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are", name)
	}
}

// saslUser is the user of a JAAS line, or of librdkafka's two properties; empty for none.
func saslUser(set map[string]string) (user, password string) {
	if name := set["sasl.username"]; name != "" {
		return name, set["sasl.password"]
	}
	login, err := config.ParseJAAS(set["sasl.jaas.config"])
	if err != nil {
		return "", ""
	}
	return login.Options["username"], login.Options["password"]
}

// speaksTLS reports whether a Kafka client's properties ask for TLS.
func speaksTLS(set map[string]string) bool {
	return strings.HasSuffix(strings.ToUpper(set["security.protocol"]), "SSL")
}

// tlsOf is the TLS of a Kafka client's properties, as Java's clients and librdkafka write them. Files are PEM, JKS or
// PKCS12, and say themselves which.
func tlsOf(set map[string]string) (stores.Client, error) {
	algorithm, given := set["ssl.endpoint.identification.algorithm"]
	c := stores.Client{
		TrustStore: stores.Store{
			Certificates: orElse(set["ssl.truststore.certificates"], set["ssl.ca.pem"]),
			Location:     orElse(set["ssl.truststore.location"], set["ssl.ca.location"]),
			Password:     set["ssl.truststore.password"],
		},
		KeyStore: stores.Store{
			Certificates: orElse(set["ssl.keystore.certificate.chain"], set["ssl.certificate.pem"]),
			Key:          orElse(set["ssl.keystore.key"], set["ssl.key.pem"]),
			Location:     set["ssl.keystore.location"],
			Password:     set["ssl.keystore.password"],
			KeyPassword:  set["ssl.key.password"],
		},
		Versions:    listed(set["ssl.enabled.protocols"]),
		Ciphers:     listed(set["ssl.cipher.suites"]),
		NoHostCheck: given && (algorithm == "" || algorithm == "none"),
	}
	if cert, key := set["ssl.certificate.location"], set["ssl.key.location"]; cert != "" && !c.KeyStore.Given() {
		pair, err := pemPair(cert, orElse(key, cert))
		if err != nil {
			return c, fmt.Errorf("--command-config: %w", err)
		}
		pair.KeyPassword = set["ssl.key.password"]
		c.KeyStore = pair
	}
	return c, nil
}

// listed is the parts of a list with commas.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// askKafka asks the bootstrap server where REST is.
func (d *door) askKafka(ctx context.Context) (string, error) {
	opts, err := d.kafkaOptions(d.bootstrap)
	if err != nil {
		return "", err
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return "", fmt.Errorf("ask %s for the REST URL: %w", d.bootstrap, err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
	if err != nil {
		return "", d.unanswered(err)
	}
	if len(meta.Brokers) == 0 {
		return "", fmt.Errorf("ask %s for the REST URL: it names no brokers", d.bootstrap)
	}
	ask := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = brokerConfigs, fmt.Sprint(meta.Brokers[0].NodeID)
	resource.ConfigNames = []string{advertisedKey}
	ask.Resources = append(ask.Resources, resource)
	answer, err := ask.RequestWith(ctx, c)
	if err != nil {
		return "", d.unanswered(err)
	}
	for _, r := range answer.Resources {
		if code := kafka.ErrorCode(r.ErrorCode); code != kafka.None {
			return "", fmt.Errorf("ask %s for the REST URL: %w. Reading it takes the right DESCRIBE_CONFIGS on the cluster; or give --url",
				d.bootstrap, code)
		}
		for _, entry := range r.Configs {
			if entry.Name == advertisedKey && entry.Value != nil && *entry.Value != "" {
				return *entry.Value, nil
			}
		}
	}
	return "", fmt.Errorf("the cluster at %s does not say where its REST door is: it is not hawser, or its HTTP port is off. Give "+
		"--url", d.bootstrap)
}

// unanswered is a Kafka listener that gave no answer, in words.
func (d *door) unanswered(err error) error {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("no answer within %v", askTime)
	}
	hint := "Is a broker running there, and is that its Kafka listener?"
	switch upper := strings.ToUpper(text); {
	case strings.Contains(text, "is TLS missing"):
		text, hint = "it hung up at the first request, as a listener does that wants TLS",
			"Give a --command-config with security.protocol=SSL, or where it wants a login SASL_SSL."
	case strings.Contains(upper, "SASL"):
		hint = "Check security.protocol, sasl.mechanism and sasl.jaas.config in --command-config."
	case strings.Contains(upper, "TLS") || strings.Contains(upper, "X509"):
		hint = "Check security.protocol, and the ssl.truststore and ssl.keystore configs in --command-config."
	}
	return fmt.Errorf("reach Kafka at %s: %s. %s", d.bootstrap, strings.TrimRight(text, ".?"), hint)
}
