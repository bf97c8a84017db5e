package quorum

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// diskPath is where voters tell each other what is on their disks, beside raft's own messages.
const diskPath = "/cauce/disk"

// diskInfo is what a voter tells.
type diskInfo struct {
	Group   uint64   `json:"group"`
	Member  uint64   `json:"member"`
	Members []uint64 `json:"members,omitempty"` // of the group as its log has it; none: it has no log yet
}

// Founding asks again this often.
const (
	foundInterval = 100 * time.Millisecond
	askTimeout    = time.Second
)

// found is for a voter that has no log. It founds the group together with all the others, when none of them has a log
// either, and returns the members of it. If the group exists, it returns none as soon as it is a member, by its founding or
// because it was added; a voter that lost its disk is neither. Nothing less than an answer of every voter tells that there
// is no group: one that lost its disk could otherwise vote a second time with another that was away.
func found(ctx context.Context, cfg Config, self uint64, log *zap.Logger) (founders []uint64, err error) {
	listener, err := net.Listen("tcp", cfg.listenAddress())
	if err != nil {
		return nil, fmt.Errorf("quorum: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+diskPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(diskInfo{Group: cfg.GroupID, Member: self}) // to whoever went away
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: askTimeout, ErrorLog: zap.NewStdLog(log)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		err = errors.Join(err, server.Close())
		<-served
	}()
	ticker := time.NewTicker(foundInterval)
	defer ticker.Stop()
	client := &http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for told := false; ; {
		founders, outside, done := askAll(ctx, client, cfg, self, log)
		if done {
			return founders, nil
		}
		if outside && !told {
			told = true
			log.Warn("the quorum goes on without this controller, whose metadata log is empty: remove it and add it again (cauce quorum)",
				zap.Int32("node", cfg.ID))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// announceInterval is shorter than a candidacy.
const announceInterval = time.Second

// announce goes on asking the others, and by that to be added, while this member has the log of no group: it may have been taken out
// again before it learned anything.
func (q *Quorum) announce(ctx context.Context) {
	ticker := time.NewTicker(announceInterval)
	defer ticker.Stop()
	client := &http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for len(*q.members.Load()) == 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		askAll(ctx, client, q.cfg, q.self, q.log)
	}
}

// askAll asks each of the others once. It is done when there is a group with this member in it, or can be one of founders.
func askAll(ctx context.Context, client *http.Client, cfg Config, self uint64, log *zap.Logger) (founders []uint64, outside, done bool) {
	founders = []uint64{self}
	for _, id := range slices.Sorted(maps.Keys(cfg.Voters)) {
		if id == cfg.ID {
			continue
		}
		info, err := ask(ctx, client, cfg.Voters[id], self)
		if err == nil && info.Group != cfg.GroupID {
			err = errors.New("it belongs to another cluster")
		}
		switch {
		case err != nil:
			log.Debug("a voter does not tell what it has", zap.Int32("node", id), zap.Error(err))
		case slices.Contains(info.Members, self):
			return nil, false, true
		case len(info.Members) > 0:
			outside = true
		default:
			founders = append(founders, info.Member)
		}
	}
	if outside || len(founders) < len(cfg.Voters) {
		return nil, outside, false
	}
	slices.Sort(founders)
	return founders, false, true
}

// ask asks a voter what is on its disk, and tells it who wants to know.
func ask(ctx context.Context, client *http.Client, voter string, self uint64) (diskInfo, error) {
	var info diskInfo
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, voter+diskPath+"?"+url.Values{"from": {strconv.FormatUint(self, 10)}}.Encode(), nil)
	if err != nil {
		return info, err
	}
	response, err := client.Do(request)
	if err != nil {
		return info, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return info, errors.New(response.Status)
	}
	return info, json.NewDecoder(response.Body).Decode(&info)
}

// tellDisk answers other voters, and remembers those that wait to be added.
func (q *Quorum) tellDisk(w http.ResponseWriter, r *http.Request) {
	known := *q.members.Load()
	from, err := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64)
	if _, ok := q.cfg.Voters[nodeID(from)]; err == nil && ok && !slices.Contains(known, from) {
		q.mu.Lock()
		q.candidates[nodeID(from)] = candidate{from, time.Now()}
		q.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(diskInfo{Group: q.cfg.GroupID, Member: q.self, Members: known}) // to whoever went away
}

// listenAddress is where this voter's peers reach it.
func (c Config) listenAddress() string {
	host := ""
	if u, err := url.Parse(c.Voters[c.ID]); err == nil {
		host = u.Host
	}
	return cmp.Or(c.Listen, host)
}
