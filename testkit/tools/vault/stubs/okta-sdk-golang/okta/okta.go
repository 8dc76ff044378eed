// Package okta refuses every configuration: no test signs in with Okta's second factor. In the place
// of the real module it saves compiling the largest package of Vault. Everything below
// NewConfiguration is only there to compile.
package okta

import (
	"context"
	"errors"
)

var errNone = errors.New("this build of Vault has no second factor by Okta")

// Configuration of a client.
type Configuration struct{ Context context.Context }

// ConfigSetter is ignored.
type ConfigSetter func(*Configuration)

// NewConfiguration refuses.
func NewConfiguration(...ConfigSetter) (*Configuration, error) { return nil, errNone }

// WithToken is ignored.
func WithToken(string) ConfigSetter { return nil }

// WithOrgUrl is ignored.
func WithOrgUrl(string) ConfigSetter { return nil }

// WithCache is ignored.
func WithCache(bool) ConfigSetter { return nil }

// APIClient calls nobody.
type APIClient struct {
	UserAPI       users
	UserFactorAPI factors
}

// NewAPIClient makes one.
func NewAPIClient(*Configuration) *APIClient { return &APIClient{} }

// GetConfig has no values.
func (*APIClient) GetConfig() *Configuration { return &Configuration{} }

type call[T any] struct{}

func (call[T]) Execute() (result T, _ *struct{}, err error) { return result, nil, errNone }

func (c call[T]) Filter(string) call[T] { return c }

type users struct{}

func (users) ListUsers(context.Context) (c call[[]User]) { return c }

// User of an organisation.
type User struct{}

func (User) GetId() string { return "" }

type factors struct{}

func (factors) ListFactors(context.Context, string) (c call[[]UserFactor]) { return c }

func (factors) VerifyFactor(context.Context, string, string) (c call[*Verified]) { return c }

func (factors) GetFactorTransactionStatus(_ context.Context, _, _, _ string) (c call[*Transaction]) {
	return c
}

// UserFactor that a user has.
type UserFactor struct{ UserFactorPush *UserFactorPush }

// UserFactorPush asks on a phone.
type UserFactorPush struct{}

func (UserFactorPush) GetId() string { return "" }

// Verified is an answer.
type Verified struct{ Links any }

func (Verified) GetFactorResult() string { return "" }

// Transaction is a question that waits for the user.
type Transaction struct {
	UserFactorPushTransaction         *struct{}
	UserFactorPushTransactionRejected *struct{}
	UserFactorPushTransactionTimeout  *struct{}
	UserFactorPushTransactionWaiting  *struct{}
}
