// certs makes the authority, the server's and the clients' certificates of a cluster for tests.
//
//	certs FOLDER                                 what a cluster needs; what is there already is kept
//	certs FOLDER client NAME USER [GROUP…]       one more client
//	certs -valid 2s FOLDER client NAME USER      one whose time is over soon
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs, and knows where things are kept.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	valid       time.Duration
}

func main() {
	valid := flag.Duration("valid", 365*24*time.Hour, "how long a certificate holds")
	flag.Parse()
	if err := run(*valid, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

func run(valid time.Duration, args []string) error {
	switch {
	case len(args) == 1:
		return cluster(args[0], valid)
	case len(args) >= 4 && args[1] == "client":
		signer, err := load(args[0], valid)
		if err != nil {
			return err
		}
		return signer.client(args[2], args[3], args[4:]...)
	}
	return errors.New("usage: certs [-valid TIME] FOLDER [client NAME USER [GROUP…]]")
}

// cluster makes everything that a control plane starts with.
func cluster(folder string, valid time.Duration) error {
	if _, err := os.Stat(filepath.Join(folder, "done")); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	signer, err := found(folder, valid)
	if err != nil {
		return err
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	return errors.Join(
		serviceAccounts(folder),
		signer.server("apiserver", names...),
		signer.server("kwok", "localhost"),
		signer.client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		signer.client("admin", "admin", "system:masters"),
		signer.client("scheduler", "system:kube-scheduler"),
		signer.client("controller-manager", "system:kube-controller-manager"),
		signer.client("kwok-client", "kwok", "system:masters"),
		os.WriteFile(filepath.Join(folder, "done"), nil, 0o600),
	)
}

// found makes the authority.
func found(folder string, valid time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := about("tests", nil, valid)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{folder, certificate, key, valid}, keep(folder, "ca", der, key)
}

// load reads the authority that an earlier call made.
func load(folder string, valid time.Duration) (*authority, error) {
	blocks := make([]*pem.Block, 0, 2)
	for _, name := range []string{"ca.crt", "ca.key"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("%s is not PEM", name)
		}
		blocks = append(blocks, block)
	}
	certificate, wrong := x509.ParseCertificate(blocks[0].Bytes)
	key, broken := x509.ParsePKCS8PrivateKey(blocks[1].Bytes)
	if err := errors.Join(wrong, broken); err != nil {
		return nil, err
	}
	private, is := key.(*ecdsa.PrivateKey)
	if !is {
		return nil, errors.New("ca.key is of another kind")
	}
	return &authority{folder, certificate, private, valid}, nil
}

// serviceAccounts makes the pair by which tokens are signed and checked.
func serviceAccounts(folder string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return errors.Join(write(folder, "sa.pub", "PUBLIC KEY", public), private(folder, "sa", key))
}

func (a *authority) server(name string, hosts ...string) error {
	template := about("kube-"+name, nil, a.valid)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = hosts
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	return a.sign(name, template)
}

func (a *authority) client(name, user string, groups ...string) error {
	template := about(user, groups, a.valid)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(name, template)
}

func (a *authority) sign(name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	return keep(a.folder, name, der, key)
}

func about(name string, groups []string, valid time.Duration) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(valid),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func keep(folder, name string, der []byte, key any) error {
	return errors.Join(write(folder, name+".crt", "CERTIFICATE", der), private(folder, name, key))
}

func private(folder, name string, key any) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return write(folder, name+".key", "PRIVATE KEY", der)
}

func write(folder, name, kind string, der []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(filepath.Join(folder, name), text, 0o600)
}
