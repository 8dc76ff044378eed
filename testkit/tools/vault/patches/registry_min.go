//go:build minimal

package builtinplugins

import (
	kubeauth "github.com/hashicorp/vault-plugin-auth-kubernetes"
	awsauth "github.com/hashicorp/vault/builtin/credential/aws"
)

// The auth methods that Pontoon's tests log in by and that the minimal build leaves out.
func extendAddonPlugins(r *registry) {
	r.credentialBackends["aws"] = credentialBackend{Factory: awsauth.Factory}
	r.credentialBackends["kubernetes"] = credentialBackend{Factory: kubeauth.Factory}
}
