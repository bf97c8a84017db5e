package localcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// network gives each node an address of its own by Linux network namespaces: one for each node, joined by one that routes,
// with a leg to the machine itself, from where clients come. Routing rules there drop what goes from one node to another.
type network struct {
	// Subnet is which 256 addresses of 198.18.0.0/15 the cluster has. That range is set aside for tests (RFC 2544).
	Subnet int `json:"subnet"`
	// Prefix begins the names of the cluster's namespaces; the one that routes is called just that.
	Prefix string `json:"prefix"`
}

const (
	subnets      = 512
	maxAddresses = 250

	// Parts of the network that are no nodes, by the last number of their addresses.
	router  = 254
	machine = 253

	// cutPriority is that of the routing rules which drop packets, before all others but those of the namespace itself.
	cutPriority = 100
)

// namespacesPossible says why there can be none.
func namespacesPossible() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("network namespaces need iproute2: %w", err)
	}
	return nil
}

func (w network) address(last int) string {
	return fmt.Sprintf("198.%d.%d.%d", 18+w.Subnet/256, w.Subnet%256, last)
}

func (w network) host(place int) string { return w.address(place + 1) }

func (w network) namespace(id int32) string { return fmt.Sprintf("%s-%d", w.Prefix, id) }

// link is the machine's leg. No two clusters of one subnet can have it.
func (w network) link() string { return fmt.Sprintf("cauce%d", w.Subnet) }

// newNetwork takes a subnet that no other cluster has, looking from a wish on.
func newNetwork(name string, wish int, nodes []Node) (*network, error) {
	if err := namespacesPossible(); err != nil {
		return nil, err
	}
	w := network{Prefix: "cauce-" + name}
	for i := range subnets {
		w.Subnet = (wish + i) % subnets
		err := w.open(nodes)
		if err == nil {
			return &w, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("all %d subnets are taken: %w", subnets, fs.ErrExist)
}

// exists says whether the namespaces are there; a restart of the machine removes them.
func (w network) exists() bool {
	_, err := os.Stat(filepath.Join("/var/run/netns", w.Prefix))
	return err == nil
}

// open makes the namespaces. It fails with fs.ErrExist if the subnet is taken.
func (w network) open(nodes []Node) error {
	if _, err := ip("", "link", "show", w.link()); err == nil {
		return fmt.Errorf("subnet %s/24: %w", w.address(0), fs.ErrExist)
	}
	err := w.build(nodes)
	if err != nil {
		return errors.Join(err, w.close(nodes))
	}
	return nil
}

func (w network) build(nodes []Node) error {
	route := w.address(router)
	var outside, inside strings.Builder
	fmt.Fprintf(&outside, "netns add %s\n", w.Prefix)
	fmt.Fprintf(&outside, "link add %s type veth peer name machine netns %s\n", w.link(), w.Prefix)
	fmt.Fprintf(&outside, "addr add %s/32 dev %s\nlink set %s up\n", w.address(machine), w.link(), w.link())
	fmt.Fprintf(&outside, "route add %s dev %s src %s\n", route, w.link(), w.address(machine))
	fmt.Fprintf(&outside, "route add %s/24 via %s dev %s src %s\n", w.address(0), route, w.link(), w.address(machine))
	leg := func(link, address string) {
		fmt.Fprintf(&inside, "addr add %s/32 dev %s\nlink set %s up\nroute add %s dev %s\n", route, link, link, address, link)
	}
	leg("machine", w.address(machine))
	for i, n := range nodes {
		link := fmt.Sprint("node", n.ID)
		fmt.Fprintf(&outside, "netns add %s\n", w.namespace(n.ID))
		fmt.Fprintf(&outside, "link add %s netns %s type veth peer name eth0 netns %s\n", link, w.Prefix, w.namespace(n.ID))
		leg(link, w.host(i))
	}
	if _, err := ip(outside.String(), "-batch", "-"); err != nil {
		return err
	}
	if _, err := ip(inside.String(), "-n", w.Prefix, "-batch", "-"); err != nil {
		return err
	}
	if _, err := ip("", "netns", "exec", w.Prefix, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"); err != nil {
		return err
	}
	for i, n := range nodes {
		own := fmt.Sprintf("link set lo up\naddr add %s/32 dev eth0\nlink set eth0 up\nroute add %s dev eth0\nroute add default via %s\n", w.host(i), route, route)
		if _, err := ip(own, "-n", w.namespace(n.ID), "-batch", "-"); err != nil {
			return err
		}
	}
	return nil
}

// close removes what is there of the network. Processes that still run in a namespace keep it, without a name.
func (w network) close(nodes []Node) error {
	names := []string{w.Prefix}
	for _, n := range nodes {
		names = append(names, w.namespace(n.ID))
	}
	var errs []error
	if _, err := ip("", "link", "show", w.link()); err == nil && w.exists() {
		// The system removes what was in a namespace a while after its name; this leg may be wanted again at once.
		_, err := ip("", "link", "del", w.link())
		errs = append(errs, err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("/var/run/netns", name)); err == nil {
			_, err := ip("", "netns", "del", name)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// openNetwork makes the namespaces anew where they are missing.
func (c *Cluster) openNetwork() error {
	if w := c.plan.Network; w != nil && !w.exists() {
		return w.open(c.plan.Nodes)
	}
	return nil
}

func (c *Cluster) closeNetwork() error {
	if w := c.plan.Network; w != nil {
		return w.close(c.plan.Nodes)
	}
	return nil
}

// Cut is a way on which nothing gets through.
type Cut struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

var errNoPartitions = errors.New("this cluster's nodes share the loopback network, which cannot be cut: make it as root, with --network namespaces")

// Cuts are the ways that are cut now.
func (c *Cluster) Cuts() ([]Cut, error) {
	w := c.plan.Network
	if w == nil || !w.exists() {
		return nil, nil
	}
	text, err := ip("", "-json", "-n", w.Prefix, "rule", "show", "priority", fmt.Sprint(cutPriority))
	if err != nil {
		return nil, err
	}
	var rules []struct{ Src, Dst string }
	if err := json.Unmarshal(text, &rules); err != nil {
		return nil, fmt.Errorf("ip rule show: %w", err)
	}
	at := map[string]int32{}
	for i, n := range c.plan.Nodes {
		at[w.host(i)] = n.ID
	}
	var cuts []Cut
	for _, r := range rules {
		cuts = append(cuts, Cut{From: at[r.Src], To: at[r.Dst]})
	}
	return cuts, nil
}

// Cut drops every packet on these ways from now on, also of connections that are open.
func (c *Cluster) Cut(ways ...Cut) error {
	w := c.plan.Network
	if w == nil {
		return errNoPartitions
	}
	there, err := c.Cuts()
	if err != nil {
		return err
	}
	is := map[Cut]bool{}
	for _, way := range there {
		is[way] = true
	}
	at := map[int32]string{}
	for i, n := range c.plan.Nodes {
		at[n.ID] = w.host(i)
	}
	var rules strings.Builder
	for _, way := range ways {
		if !is[way] {
			fmt.Fprintf(&rules, "rule add priority %d from %s to %s blackhole\n", cutPriority, at[way.From], at[way.To])
			is[way] = true
		}
	}
	_, err = ip(rules.String(), "-n", w.Prefix, "-batch", "-")
	return err
}

// Heal lets everything through again.
func (c *Cluster) Heal() error {
	cuts, err := c.Cuts()
	if err != nil || len(cuts) == 0 {
		return err
	}
	_, err = ip(strings.Repeat(fmt.Sprintf("rule del priority %d\n", cutPriority), len(cuts)), "-n", c.plan.Network.Prefix, "-batch", "-")
	return err
}

// ip runs iproute2's command.
func ip(input string, args ...string) ([]byte, error) {
	cmd := exec.Command("ip", args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}
