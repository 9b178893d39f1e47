{{/* One StatefulSet of brokers: `voters`, or `more`. */}}
{{- define "danube.brokers" -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
{{- $name := include "danube.name" .root -}}
{{- $domain := include "danube.domain" .root -}}
{{- $set := ternary $name (printf "%s-more" $name) (eq .set "voters") -}}
{{- $isRaft := eq $v.metadata.type "raft" -}}
{{- $labels := dict "root" .root "component" "broker" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $set }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "danube.labels" $labels | nindent 4 }}
    danube/brokers: {{ .set }}
spec:
  replicas: {{ .replicas }}
  serviceName: {{ $name }}-brokers
  podManagementPolicy: Parallel  # a majority has to start for one to be ready
  minReadySeconds: 5
  updateStrategy: { type: RollingUpdate }
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: {{ $v.storage.whenDeleted }}
    whenScaled: {{ $v.storage.whenScaled }}
  selector:
    matchLabels: {{ include "danube.selector" $labels | nindent 6 }}
      danube/brokers: {{ .set }}
  template:
    metadata:
      labels: {{ include "danube.labels" $labels | nindent 8 }}
        danube/brokers: {{ .set }}
      annotations:
        {{- if $v.storage.carryOnStop }}
        checksum/hooks: {{ .root.Files.Get "files/hooks.py" | sha256sum }}
        {{- end }}
        {{- with $v.annotations }}{{ toYaml . | nindent 8 }}{{- end }}
    spec: {{ include "danube.pod" (dict "root" .root) | nindent 6 }}
      terminationGracePeriodSeconds: {{ $v.brokers.terminationGracePeriodSeconds }}
      {{- with $v.brokers.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $v.brokers.nodeSelector }}
      nodeSelector: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.brokers.tolerations }}
      tolerations: {{ toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector: { matchLabels: {{ include "danube.selector" $labels | fromYaml | toJson }} }
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: {{ $v.brokers.spread.hosts }}
          labelSelector: { matchLabels: {{ include "danube.selector" $labels | fromYaml | toJson }} }
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: {{ $v.brokers.spread.zones }}
          labelSelector: { matchLabels: {{ include "danube.selector" $labels | fromYaml | toJson }} }
      containers:
        - name: broker
          {{- include "danube.container" (dict "root" .root "image" "broker") | nindent 10 }}
          args: {{ ternary (list "--join") (list) (and $isRaft (eq .set "more")) | toJson }}
          env:
            - name: POD_NAME
              valueFrom: { fieldRef: { fieldPath: metadata.name } }
            - { name: DANUBE_CLUSTER_NAME, value: {{ $v.clusterName | quote }} }
            - { name: DANUBE_MODE, value: cluster }
            - { name: DANUBE_DATA_DIR, value: /var/lib/danube/data }
            - { name: DANUBE_BROKER_ADDR, value: "{{ $v.listenHost }}:6650" }
            - { name: DANUBE_ADMIN_ADDR, value: "{{ $v.listenHost }}:50051" }
            - { name: DANUBE_PROM_EXPORTER, value: "{{ $v.listenHost }}:9040" }
            - { name: DANUBE_ADVERTISED_ADDR, value: "$(POD_NAME).{{ $domain }}:6650" }
            {{- if $v.schemaRegistry.enabled }}
            - { name: DANUBE_SCHEMA_HTTP_ADDR, value: "{{ $v.listenHost }}:8081" }
            {{- end }}
            - { name: DANUBE_LOG_FORMAT, value: json }
            - { name: DANUBE_META_STORE_TYPE, value: {{ $v.metadata.type }} }
            {{- if $isRaft }}
            - { name: DANUBE_META_STORE_RAFT_ADDR, value: "{{ $v.listenHost }}:7650" }
            - { name: DANUBE_META_STORE_RAFT_ADVERTISED_ADDR, value: "$(POD_NAME).{{ $domain }}:7650" }
            - { name: DANUBE_META_STORE_SECRET_FILE, value: /etc/danube/raft/raft }
            {{- if eq .set "voters" }}
            - name: DANUBE_META_STORE_SEED_NODES
              value: {{ range $i := until 3 }}{{ if $i }},{{ end }}{{ $name }}-{{ $i }}.{{ $domain }}:7650{{ end }}
            {{- end }}
            {{- else }}
            - name: DANUBE_META_STORE_{{ ternary "ENDPOINTS" "HOSTS" (eq $v.metadata.type "etcd") }}
              value: {{ join "," $v.metadata.endpoints | quote }}
            {{- with $v.metadata.passwordSecret }}
            - name: DANUBE_META_STORE_USER
              valueFrom: { secretKeyRef: { name: {{ . }}, key: user } }
            - name: DANUBE_META_STORE_PASSWORD
              valueFrom: { secretKeyRef: { name: {{ . }}, key: password } }
            {{- end }}
            {{- end }}
            - { name: DANUBE_STORAGE_MODE, value: {{ $v.storage.mode }} }
            {{- if eq $v.storage.mode "shared_fs" }}
            - { name: DANUBE_STORAGE_FOLDER, value: /var/lib/danube-shared }
            {{- else if eq $v.storage.mode "object_store" }}
            {{- with $v.storage.objectStore }}
            - { name: DANUBE_OBJECT_STORE_URL, value: {{ .url | quote }} }
            - { name: DANUBE_OBJECT_STORE_JOURNAL, value: {{ .journal }} }
            {{- with .endpoint }}
            - { name: DANUBE_OBJECT_STORE_ENDPOINT, value: {{ . | quote }} }
            {{- end }}
            {{- with .region }}
            - { name: DANUBE_OBJECT_STORE_REGION, value: {{ . | quote }} }
            {{- end }}
            {{- with .credentialsSecret }}
            - name: DANUBE_OBJECT_STORE_ACCESS_KEY
              valueFrom: { secretKeyRef: { name: {{ . }}, key: access_key } }
            - name: DANUBE_OBJECT_STORE_SECRET_KEY
              valueFrom: { secretKeyRef: { name: {{ . }}, key: secret_key } }
            {{- end }}
            {{- end }}
            {{- end }}
            {{- if $v.auth.enabled }}
            - { name: DANUBE_AUTH_MODE, value: tls }
            - { name: DANUBE_AUTH_TLS_CERT, value: /etc/danube/tls/tls.crt }
            - { name: DANUBE_AUTH_TLS_KEY, value: /etc/danube/tls/tls.key }
            - { name: DANUBE_AUTH_TLS_CA, value: /etc/danube/tls/ca.crt }
            {{- if $v.auth.tokenSecret }}
            - { name: DANUBE_AUTH_JWT_SECRET_FILE, value: /etc/danube/token/secret }
            {{- end }}
            {{- if $v.auth.clusterSecret }}
            - { name: DANUBE_AUTH_CLUSTER_SECRET_FILE, value: /etc/danube/cluster/cluster }
            {{- end }}
            - { name: DANUBE_AUTH_SUPER_ADMINS, value: {{ join "," $v.auth.superAdmins | quote }} }
            {{- end }}
            {{- range $key, $value := $v.brokers.settings }}
            - { name: {{ $key }}, value: {{ $value | quote }} }
            {{- end }}
            {{- include "danube.adminEnv" $root | nindent 12 }}
            {{- include "danube.adminToken" $root | nindent 12 }}
            {{- if $v.storage.carryOnStop }}
            - { name: DANUBE_HOOK_SECONDS, value: {{ sub $v.brokers.terminationGracePeriodSeconds 30 | quote }} }
            {{- end }}
          {{- with $v.brokers.settingsFrom }}
          envFrom: {{ toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - { name: clients, containerPort: 6650 }
            - { name: admin, containerPort: 50051 }
            - { name: metrics, containerPort: 9040 }
            {{- if $isRaft }}
            - { name: raft, containerPort: 7650 }
            {{- end }}
            {{- if $v.schemaRegistry.enabled }}
            - { name: schemas, containerPort: 8081 }
            {{- end }}
          {{- $scheme := include "danube.scheme" $root | upper }}
          startupProbe:  # a journal of a hundred gigabytes is read within the hour
            httpGet: { path: /health/startup, port: metrics, scheme: {{ $scheme }} }
            periodSeconds: 5
            failureThreshold: 720
          readinessProbe:
            httpGet: { path: /health/ready, port: metrics, scheme: {{ $scheme }} }
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          livenessProbe:
            httpGet: { path: /health/live, port: metrics, scheme: {{ $scheme }} }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          lifecycle:
            {{- if $v.storage.carryOnStop }}
            postStart: { exec: { command: [python3, -I, /etc/danube/hooks/hooks.py, activate] } }
            preStop: { exec: { command: [python3, -I, /etc/danube/hooks/hooks.py, carry] } }
            {{- else }}
            preStop: { sleep: { seconds: {{ $v.brokers.routesSettleSeconds }} } }  # SIGTERM drains
            {{- end }}
          resources: {{ toYaml $v.brokers.resources | nindent 12 }}
          volumeMounts:
            - { name: data, mountPath: /var/lib/danube }
            - { name: tmp, mountPath: /tmp }
            {{- if $v.storage.carryOnStop }}
            - { name: hooks, mountPath: /etc/danube/hooks, readOnly: true }
            {{- end }}
            {{- if $isRaft }}
            - { name: raft, mountPath: /etc/danube/raft, readOnly: true }
            {{- end }}
            {{- if eq $v.storage.mode "shared_fs" }}
            - { name: shared, mountPath: /var/lib/danube-shared }
            {{- end }}
            {{- if $v.auth.enabled }}
            - { name: tls, mountPath: /etc/danube/tls, readOnly: true }
            {{- if $v.auth.tokenSecret }}
            - { name: token, mountPath: /etc/danube/token, readOnly: true }
            {{- end }}
            {{- if $v.auth.clusterSecret }}
            - { name: cluster, mountPath: /etc/danube/cluster, readOnly: true }
            {{- end }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- if $v.storage.carryOnStop }}
        - name: hooks
          configMap: { name: {{ $name }}-hooks }
        {{- end }}
        {{- if $isRaft }}
        - name: raft
          secret: { secretName: {{ $v.metadata.raftSecret | default (printf "%s-raft" $name) }}, defaultMode: 0440 }
        {{- end }}
        {{- if eq $v.storage.mode "shared_fs" }}
        - name: shared
          persistentVolumeClaim: { claimName: {{ $v.storage.shared.existingClaim | default (printf "%s-shared" $name) }} }
        {{- end }}
        {{- if $v.auth.enabled }}
        - name: tls
          secret: { secretName: {{ $v.auth.tlsSecret }}, defaultMode: 0440 }
        {{- with $v.auth.tokenSecret }}
        - name: token
          secret: { secretName: {{ . }}, defaultMode: 0440 }
        {{- end }}
        {{- with $v.auth.clusterSecret }}
        - name: cluster
          secret: { secretName: {{ . }}, defaultMode: 0440 }
        {{- end }}
        {{- end }}
  volumeClaimTemplates:
    - metadata:
        name: data
        labels: {{ include "danube.selector" $labels | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $v.storage.className }}
        storageClassName: {{ . }}
        {{- end }}
        resources: { requests: { storage: {{ $v.storage.size }} } }
{{- end -}}
