{{- /* A YAML list: the command line of the operator. */ -}}
{{- define "pontoon.args" -}}
- run
{{- with include "pontoon.features" . | fromJsonArray }}
- {{ printf "--features=%s" (join "," .) }}
{{- end }}
- {{ printf "--namespace=%s" .Release.Namespace }}
- --leader-elect=true
- --shutdown-deadline=20s
- --health-probe-bind-address=:8081
{{- with .Values.clusterId }}
- {{ printf "--cluster-id=%s" . | quote }}
{{- end }}
{{- with .Values.aws.region }}
- {{ printf "--aws-region=%s" . | quote }}
{{- end }}
{{- if has "vault" (include "pontoon.features" . | fromJsonArray) }}
- {{ printf "--vault-service-account=%s" (include "pontoon.serviceAccountName" .) }}
{{- with .Values.vault.clusterName }}
- {{ printf "--cluster-name=%s" . | quote }}
{{- end }}
{{- with .Values.vault.legacyLease }}
- {{ printf "--vault-legacy-lease=%s" . | quote }}
{{- end }}
{{- with .Values.vault.controllers }}
- {{ printf "--vault-controllers=%s" (join "," .) }}
{{- end }}
{{- end }}
{{- if has "tenants" (include "pontoon.features" . | fromJsonArray) }}
- {{ printf "--drift-policy=%s" .Values.tenants.driftPolicy }}
- {{ printf "--tenants-policy=%s" .Values.tenants.policy }}
{{- with .Values.tenants.legacyLease }}
- {{ printf "--tenants-legacy-lease=%s" . | quote }}
{{- end }}
{{- end }}
{{- if has "migrate" (include "pontoon.features" . | fromJsonArray) }}
{{- with .Values.migrate.legacyLease }}
- {{ printf "--migrate-legacy-lease=%s" . | quote }}
{{- end }}
{{- with .Values.migrate.concurrency }}
- {{ printf "--migrate-concurrency=%d" (int .) }}
{{- end }}
{{- end }}
- {{ printf "--log-format=%s" .Values.log.format }}
- {{ printf "--log-level=%s" .Values.log.level | quote }}
{{- if .Values.metrics.enabled }}
{{- if eq (int .Values.metrics.port) 8081 }}
{{- fail "metrics.port: 8081 serves the probes; choose another port" }}
{{- end }}
- {{ printf "--metrics-bind-address=:%d" (int .Values.metrics.port) | quote }}
- {{ printf "--metrics-secure=%t" .Values.metrics.secure }}
{{- if .Values.metrics.certificateSecret }}
- --metrics-cert-path=/etc/pontoon/metrics
{{- end }}
{{- else }}
- --metrics-bind-address=0
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}
