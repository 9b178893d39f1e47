{{/* Names, labels, and what pods have in common. */}}
{{- define "danube.name" -}}
{{- $name := ternary .Release.Name (printf "%s-danube" .Release.Name) (contains "danube" .Release.Name) -}}
{{- if gt (len $name) 40 -}}
{{- fail (printf "the release's name %q is too long: names of pods are made of it, take one of 30 letters at most" .Release.Name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "danube.selector" -}}
app.kubernetes.io/name: danube
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "danube.labels" -}}
{{ include "danube.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "danube.image" -}}
{{- with .root.Values.image -}}
{{ .registry }}/{{ .repository }}-{{ $.image }}:{{ .tag | default $.root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "danube.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "danube.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "danube.domain" -}}
{{ include "danube.name" . }}-brokers.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{- define "danube.scheme" -}}
{{ ternary "https" "http" .Values.auth.enabled }}
{{- end -}}

{{- define "danube.appProtocol" -}}
{{ ternary "https" "kubernetes.io/h2c" .Values.auth.enabled }}
{{- end -}}

{{- define "danube.adminUrl" -}}
{{ include "danube.scheme" . }}://{{ include "danube.name" . }}-admin.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:50051
{{- end -}}

{{- define "danube.clientUrl" -}}
{{ include "danube.scheme" . }}://{{ include "danube.name" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:6650
{{- end -}}

{{/* What every pod has: an own user, nothing that it does not need. */}}
{{- define "danube.pod" -}}
serviceAccountName: {{ include "danube.serviceAccount" .root }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "danube.container" -}}
image: {{ include "danube.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsUser: 10001
  runAsGroup: 10001
  capabilities: { drop: [ALL] }
{{- end -}}

{{/* How danube-admin reaches the brokers. */}}
{{- define "danube.adminEnv" -}}
- name: DANUBE_ADMIN_ENDPOINT
  value: {{ include "danube.adminUrl" . }}
{{- if .Values.auth.enabled }}
- name: DANUBE_ADMIN_CA
  value: /etc/danube/tls/ca.crt
{{- end }}
- name: HOME
  value: /tmp
{{- end -}}

{{/* Its own token: not of a server that passes on those of its callers. */}}
{{- define "danube.adminToken" -}}
{{- if .Values.auth.enabled }}
{{- with .Values.auth.adminTokenSecret }}
- name: DANUBE_ADMIN_TOKEN
  valueFrom: { secretKeyRef: { name: {{ . }}, key: token } }
{{- end }}
{{- end }}
{{- end -}}

{{- define "danube.caVolume" -}}
{{- if .Values.auth.enabled }}
- name: ca
  secret: { secretName: {{ .Values.auth.tlsSecret }}, defaultMode: 0440, items: [{ key: ca.crt, path: ca.crt }] }
{{- end }}
{{- end -}}

{{- define "danube.caMount" -}}
{{- if .Values.auth.enabled }}
- { name: ca, mountPath: /etc/danube/tls, readOnly: true }
{{- end }}
{{- end -}}
