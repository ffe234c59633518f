package meta_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
)

// selfSigned is a certificate that is its own authority, as files and as TLS.
func selfSigned(t *testing.T) (certFile, keyFile string, cfg *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"etcd"}}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, text := range map[string][]byte{certFile: chain, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(chain)
	return certFile, keyFile, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

func TestExternalEtcdByTLSAndLogin(t *testing.T) {
	t.Parallel() // most of it is waiting
	certFile, keyFile, cfg := selfSigned(t)
	etcd := metatest.StartEtcd(t, metatest.EtcdConfig{CertFile: certFile, KeyFile: keyFile, CAFile: certFile})
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint}, TLS: cfg, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	steps := []func() error{
		func() error { _, err := admin.RoleAdd(ctx, "root"); return err },
		func() error { _, err := admin.UserAdd(ctx, "root", "root-secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.RoleAdd(ctx, "hawser"); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, "hawser", "/hawser/", "/hawser0", clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := admin.UserAdd(ctx, "hawser", "etcd-secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "hawser", "hawser"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	m := metatest.Open(t, meta.Config{Dir: t.TempDir(), Endpoints: []string{etcd.Endpoint}, TLS: cfg, User: "hawser", Password: "etcd-secret"})
	put := func(value string) error {
		return m.Update(ctx, func(*meta.Image) ([]meta.Change, error) {
			return []meta.Change{meta.PutConfigs("1", map[string]string{"log.retention.ms": value})}, nil
		})
	}
	if err := put("5"); err != nil || m.Image().Configs["1"]["log.retention.ms"] != "5" {
		t.Fatal(err)
	}
	for name, bad := range map[string]meta.Config{
		"wrong password": {TLS: cfg, User: "hawser", Password: "wrong-secret"},
		"no certificate": {TLS: &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12}, User: "hawser", Password: "etcd-secret"},
	} {
		bad.Dir, bad.Endpoints = t.TempDir(), []string{etcd.Endpoint}
		short, end := context.WithTimeout(ctx, time.Second)
		_, err := meta.Open(short, bad)
		end()
		if err == nil || strings.Contains(err.Error(), "-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOneBrokerRemovesTheHistoryOfAnExternalEtcd(t *testing.T) {
	etcd := metatest.StartEtcd(t, metatest.EtcdConfig{})
	const every = 50 * time.Millisecond
	dir := t.TempDir() // of both: they need the same key for secrets
	m := metatest.Open(t, meta.Config{Dir: dir, Endpoints: []string{etcd.Endpoint}, CompactEvery: every})
	metatest.Open(t, meta.Config{Dir: dir, Endpoints: []string{etcd.Endpoint}, CompactEvery: every})
	first := m.Image().Revision
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; ; n++ {
		if err := m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
			return []meta.Change{meta.PutConfigs("1", map[string]string{"log.retention.ms": time.Duration(n).String()})}, nil
		}); err != nil {
			t.Fatal(err)
		}
		_, err := c.Get(t.Context(), "/hawser/1/x", clientv3.WithRev(first))
		if errors.Is(err, rpctypes.ErrCompacted) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("revision %d is still there: %v", first, err)
		}
	}
	got, err := c.Get(t.Context(), "/hawser/upkeep/compaction")
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if err := m.Err(); err != nil {
		t.Errorf("the history that was removed stopped a broker: %v", err)
	}
}
