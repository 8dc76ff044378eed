{{- /*
A YAML list: `rules` as far as the chosen controllers need them, as `pontoon rbac` prints them. Kinds
that no running controller looks after are only read; discovery also creates policies and roles.
*/ -}}
{{- define "pontoon.vaultRules" -}}
{{- $chosen := .context.Values.vault.controllers -}}
{{- $kinds := dict "policy" (list "vaultpolicies" "vaultclusterpolicies") "role" (list "vaultroles" "vaultclusterroles") "kv" (list "vaultkvsecrets") -}}
{{- $left := list -}}
{{- range $controller, $plurals := $kinds -}}
{{- if and $chosen (not (has $controller $chosen)) -}}
{{- $left = concat $left $plurals -}}
{{- end -}}
{{- end -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $kept := list -}}
{{- range .resources -}}
{{- if not (has (splitList "/" . | first) $left) -}}
{{- $kept = append $kept . -}}
{{- end -}}
{{- end -}}
{{- $rules = append $rules (merge (dict "resources" $kept) .) -}}
{{- end -}}
{{- $group := list "vault.platform.io" -}}
{{- with $left -}}
{{- $rules = append $rules (dict "apiGroups" $group "resources" . "verbs" (list "get" "list" "watch")) -}}
{{- end -}}
{{- with without $left "vaultkvsecrets" -}}
{{- if has "discovery" $chosen -}}
{{- $rules = append $rules (dict "apiGroups" $group "resources" . "verbs" (list "create")) -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}
