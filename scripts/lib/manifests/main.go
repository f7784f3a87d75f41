// Command manifests decodes Kubernetes manifests from standard input strictly, with the types of their own API groups,
// and prints kind and name of each. An unknown member, a member of another type, or an unknown kind is an error.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func run() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewDocumentDecoder(os.Stdin)
	defer documents.Close()
	buffer := make([]byte, 1<<20)
	for {
		length, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		object, kind, err := decoder.Decode(buffer[:length], nil, nil)
		if err != nil {
			return fmt.Errorf("%w, in\n%s", err, buffer[:length])
		}
		named, ok := object.(interface{ GetName() string })
		if !ok || named.GetName() == "" {
			return fmt.Errorf("a %s without a name", kind.Kind)
		}
		fmt.Println(kind.Kind, named.GetName())
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
