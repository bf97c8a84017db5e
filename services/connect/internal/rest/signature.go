package rest

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"net/http"
	"slices"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
)

// The headers of a request that one worker signs for another (KIP-507).
const (
	signatureHeader = "X-Connect-Authorization"
	algorithmHeader = "X-Connect-Request-Signature-Algorithm"
)

// macs are the algorithms by the names that Java has for them.
var macs = map[string]func() hash.Hash{"HmacSHA1": sha1.New, "HmacSHA256": sha256.New, "HmacSHA384": sha512.New384, "HmacSHA512": sha512.New}

// Sign signs the body of a request to another worker.
func Sign(req *http.Request, body []byte, key *configs.SessionKey, algorithm string) error {
	hashed, ok := macs[algorithm]
	if !ok {
		return fmt.Errorf("unknown signature algorithm %q", algorithm)
	}
	mac := hmac.New(hashed, key.Key)
	mac.Write(body)
	req.Header.Set(signatureHeader, base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	req.Header.Set(algorithmHeader, algorithm)
	return nil
}

// unsigned is why a request between workers is refused.
type unsigned struct {
	status  int
	message string
}

func (u *unsigned) Error() string { return u.message }

// verify checks that a request comes from a worker of the group.
func (h *handler) verify(r *http.Request, body []byte) error {
	if !h.config.Signed {
		return nil
	}
	signature, algorithm := r.Header.Get(signatureHeader), r.Header.Get(algorithmHeader)
	if signature == "" || algorithm == "" {
		return &unsigned{http.StatusBadRequest, "the request is for other workers to make: it has no signature"}
	}
	hashed, known := macs[algorithm]
	if !known || !slices.Contains(h.config.Algorithms, algorithm) {
		return &unsigned{http.StatusBadRequest, fmt.Sprintf("signatures by %q are not accepted", algorithm)}
	}
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return &unsigned{http.StatusBadRequest, "the signature is not base64"}
	}
	key := h.deps.Herder.SessionKey()
	if key == nil {
		return &unsigned{http.StatusServiceUnavailable, "the worker has not read a session key yet"}
	}
	mac := hmac.New(hashed, key.Key)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), given) {
		return &unsigned{http.StatusForbidden, "the signature is not that of the group's session key"}
	}
	return nil
}
