package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/testport"
)

// TestMain makes this program a stand-in for a node when it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "--config" {
		if err := standIn(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// standIn answers at a node's admin address: that it is ready, and whether it reaches another address.
func standIn(properties string) error {
	v, err := config.Load(configkeys.Broker(), config.Options{File: properties})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /reach/{address}", func(w http.ResponseWriter, r *http.Request) {
		conn, err := net.DialTimeout("tcp", r.PathValue("address"), 300*time.Millisecond)
		if err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
			return
		}
		conn.Close()
	})
	return http.ListenAndServe(v.String("admin.listener"), mux)
}

// reaches asks a node's stand-in whether it reaches another's.
func reaches(ctx context.Context, from, to Node) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from.Admin+"/reach/"+to.Admin, nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK, errors.Join(err, response.Body.Close())
}

// create makes a cluster of stand-ins.
func create(t *testing.T, s Shape, isolated bool) *Cluster {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, role := range s.roles() {
		if err := os.Symlink(self, filepath.Join(programs, "cauce-"+role.name)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Create(t.TempDir(), programs, s, isolated)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestPartitions(t *testing.T) {
	c := create(t, Shape{Controllers: 1, Brokers: 2, BasePort: 20000}, true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	up := func() {
		t.Helper()
		if err := errors.Join(c.Start(c.Nodes()...), c.AwaitReady(ctx, c.Nodes()...)); err != nil {
			t.Fatal(err)
		}
	}
	up()
	// connected looks at all ways: those of the list are cut.
	connected := func(cut ...Cut) {
		t.Helper()
		is := map[Cut]bool{}
		for _, way := range cut {
			is[way] = true
		}
		for _, a := range c.Nodes() {
			for _, b := range c.Nodes() {
				// What comes back is as needed as what goes there.
				want := !is[Cut{a.ID, b.ID}] && !is[Cut{b.ID, a.ID}]
				if got, err := reaches(ctx, a, b); err != nil || got != want {
					t.Fatalf("node %d reaches node %d: %t, %v; want %t", a.ID, b.ID, got, err, want)
				}
			}
		}
		got, err := c.Cuts()
		if err != nil || len(got) != len(cut) {
			t.Fatalf("cuts %v, %v; want %v", got, err, cut)
		}
		for _, way := range got {
			if !is[way] {
				t.Errorf("cut %v", way)
			}
		}
	}
	connected()
	there, back := Cut{From: 1, To: 2}, Cut{From: 2, To: 1}
	if err := c.Cut(there); err != nil {
		t.Fatal(err)
	}
	connected(there)
	if err := c.Cut(there, back); err != nil { // one of them for the second time
		t.Fatal(err)
	}
	connected(there, back)
	if err := c.Heal(); err != nil {
		t.Fatal(err)
	}
	connected()

	// The network goes with the nodes, and comes back with them.
	if err := c.Cut(there); err != nil {
		t.Fatal(err)
	}
	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	if c.plan.Network.exists() {
		t.Error("the namespaces are left")
	}
	up()
	connected()
}

func TestTwoClustersHaveTwoSubnets(t *testing.T) {
	c := create(t, Shape{Controllers: 1, Brokers: 1, BasePort: 20000}, true)
	other, err := newNetwork("another", c.plan.Network.Subnet, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.close(nil); err != nil {
			t.Error(err)
		}
	}()
	if other.Subnet == c.plan.Network.Subnet {
		t.Errorf("both have subnet %d", other.Subnet)
	}
}

func TestLoopbackCannotBeCut(t *testing.T) {
	c := create(t, Shape{Controllers: 1, Brokers: 2, BasePort: testport.Range(t, 20)}, false)
	if err := c.Cut(Cut{From: 1, To: 2}); err == nil || !strings.Contains(err.Error(), "namespaces") {
		t.Errorf("cut: %v", err)
	}
	if cuts, err := c.Cuts(); err != nil || len(cuts) > 0 {
		t.Errorf("cuts %v, %v", cuts, err)
	}
}
