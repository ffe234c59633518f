package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/auth/stores"
	"github.com/hawserio/hawser/rest/client"
)

const (
	envURL      = "HAWSER_REST_URL"
	envUser     = "HAWSER_REST_USER"
	envPassword = "HAWSER_REST_PASSWORD"
	defaultURL  = "http://127.0.0.1:8090"
	// restTime bounds one REST request, as the Go client's own default does.
	restTime = 60 * time.Second
)

// door is how the command line finds the cluster and logs in: by a REST URL, or by a Kafka
// bootstrap server that is asked where the REST door is.
type door struct {
	url, user, password, cluster string
	bootstrap, commandConfig     string
	ca, cert, key                string

	kafka map[string]string // of commandConfig, once read
}

func (d *door) bind(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&d.url, "url", "", "the broker's REST `URL` (default "+defaultURL+"); also "+envURL)
	flags.StringVar(&d.bootstrap, "bootstrap-server", "", "`HOST:PORT` of a Kafka listener, which is asked for the REST URL; in "+
		"place of --url")
	flags.StringVar(&d.commandConfig, "command-config", "", "properties `file` with the login and TLS of Kafka clients (PEM, JKS "+
		"or PKCS12); its SASL user also logs in to REST")
	flags.StringVar(&d.user, "user", os.Getenv(envUser), "a SASL user of the cluster; also "+envUser)
	flags.StringVar(&d.password, "password", "", "its password; better in "+envPassword+", which other users do not see")
	flags.StringVar(&d.cluster, "cluster", "", "the `id` of the cluster that is meant: another one refuses")
	flags.StringVar(&d.ca, "certificate-authority-path", "", "PEM `file` with the CA of an https URL (default: those of the machine)")
	flags.StringVar(&d.cert, "client-cert-path", "", "PEM `file` with this client's certificate")
	flags.StringVar(&d.key, "client-key-path", "", "PEM `file` with its private key")
	// Scripts that were written for another command line give these; here they change nothing.
	for _, name := range []string{"environment", "context", "kafka-endpoint"} {
		flags.String(name, "", "")
		_ = flags.MarkHidden(name)
	}
	flags.Bool("no-authentication", false, "")
	_ = flags.MarkHidden("no-authentication")
}

// client opens the REST door.
func (a *app) client(ctx context.Context) (*client.Client, error) {
	d := &a.door
	if err := d.readCommandConfig(); err != nil {
		return nil, err
	}
	address, err := d.address(ctx)
	if err != nil {
		return nil, err
	}
	user, password := d.login()
	http, err := d.transport()
	if err != nil {
		return nil, err
	}
	c, err := client.New(address, client.Options{User: user, Password: password, ClusterID: d.cluster, HTTP: http,
		UserAgent: "hawser-cli/" + a.hooks.Version})
	if err != nil {
		return nil, fmt.Errorf("%w. Set it with --url or %s", err, envURL)
	}
	return c, nil
}

// address is where REST is: what --url says, else what the bootstrap server says, else the environment.
func (d *door) address(ctx context.Context) (string, error) {
	switch {
	case d.url != "" && d.bootstrap != "":
		return "", errors.New("--url and --bootstrap-server are both given. Give one: the REST URL, or the Kafka listener that knows it")
	case d.url != "":
		return d.url, nil
	case d.bootstrap != "":
		return d.askKafka(ctx)
	}
	return envOr(envURL, defaultURL), nil
}

// login is the user that was named, else the SASL user of --command-config.
func (d *door) login() (user, password string) {
	if d.user != "" {
		return d.user, orElse(d.password, os.Getenv(envPassword))
	}
	if d.password != "" {
		return "", d.password
	}
	return saslUser(d.kafka)
}

func orElse(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

// transport is TLS as the flags say, else as --command-config does.
func (d *door) transport() (*http.Client, error) {
	client, err := d.flagTLS()
	if err != nil {
		return nil, err
	}
	if d.ca+d.cert == "" && speaksTLS(d.kafka) {
		if client, err = tlsOf(d.kafka); err != nil {
			return nil, err
		}
	}
	config, err := clientTLS(client)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &http.Client{Timeout: restTime, Transport: transport}, nil
}

// flagTLS is what --certificate-authority-path, --client-cert-path and --client-key-path say.
func (d *door) flagTLS() (stores.Client, error) {
	var c stores.Client
	if (d.cert == "") != (d.key == "") {
		return c, errors.New("--client-cert-path and --client-key-path go together")
	}
	var err error
	if d.ca != "" {
		if c.TrustStore.Certificates, err = pemFile(d.ca); err != nil {
			return c, fmt.Errorf("read the CA's certificates, --certificate-authority-path: %w", err)
		}
	}
	if d.cert != "" {
		c.KeyStore, err = pemPair(d.cert, d.key)
	}
	return c, err
}

// clientTLS is for dialers that set the server's name.
func clientTLS(c stores.Client) (*tls.Config, error) {
	made, err := c.TLS()
	if err != nil {
		return nil, err
	}
	return made.Config("")
}

// pemPair is a key store whose certificate and key stand in files of their own.
func pemPair(certFile, keyFile string) (stores.Store, error) {
	cert, err := pemFile(certFile)
	if err != nil {
		return stores.Store{}, fmt.Errorf("read the client's certificate: %w", err)
	}
	key, err := pemFile(keyFile)
	if err != nil {
		return stores.Store{}, fmt.Errorf("read the client's key: %w", err)
	}
	return stores.Store{Certificates: cert, Key: key}, nil
}

func pemFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if info.IsDir() || info.Size() > configFileMax {
		return "", fmt.Errorf("%s is a directory or longer than %d bytes", name, configFileMax)
	}
	raw, err := os.ReadFile(name)
	return string(raw), err
}
