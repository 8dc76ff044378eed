//go:build minimal

package command

import (
	_ "github.com/hashicorp/vault/helper/builtinplugins"
	"github.com/hashicorp/vault/sdk/physical/file"
)

// Storage that survives a restart of the server; the minimal build has none without a cluster.
func extendAddonHandlers(handlers *vaultHandlers) {
	handlers.physicalBackends["file"] = file.NewFileBackend
}
