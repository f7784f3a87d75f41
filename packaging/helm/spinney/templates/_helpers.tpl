{{- define "spinney.name" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "spinney.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spinney.labels" -}}
{{ include "spinney.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "spinney.probe" -}}
httpGet:
  path: {{ index . 0 }}
  port: admin
  scheme: {{ ternary "HTTPS" "HTTP" (not (empty (index . 1).Values.tls.secretName)) }}
{{- end }}

{{- define "spinney.pod" -}}
metadata:
  annotations:
    checksum/config: {{ .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "spinney.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "spinney.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: spinney
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/spinney/spinney.toml]
      env:
        - {name: SPINNEY_LISTEN, value: "0.0.0.0:9201"}
        - {name: SPINNEY_ADMIN_LISTEN, value: "0.0.0.0:9202"}
        - {name: SPINNEY_UPSTREAM, value: {{ join "," .Values.upstream | quote }}}
        {{- if eq .Values.forest "local" }}
        - {name: SPINNEY_DATA_DIR, value: /var/lib/spinney/forest}
        {{- else }}
        - name: SPINNEY_FOREST_STORE
          valueFrom: {secretKeyRef: {name: {{ .Values.forestStore.secretName }}, key: {{ .Values.forestStore.key }}}}
        {{- if .Values.forestStore.caConfigMap }}
        - {name: SPINNEY_FOREST_STORE_CA, value: /etc/spinney/forest-store-ca/ca.crt}
        {{- end }}
        {{- end }}
        {{- if .Values.serviceUrl.secretName }}
        - name: SPINNEY_SERVICE_URL
          valueFrom: {secretKeyRef: {name: {{ .Values.serviceUrl.secretName }}, key: {{ .Values.serviceUrl.key }}}}
        {{- end }}
        {{- if .Values.upstreamCaConfigMap }}
        - {name: SPINNEY_UPSTREAM_CA, value: /etc/spinney/upstream-ca/ca.crt}
        {{- end }}
        {{- if .Values.tls.secretName }}
        - {name: SPINNEY_TLS_CERT, value: /etc/spinney/tls/tls.crt}
        - {name: SPINNEY_TLS_KEY, value: /etc/spinney/tls/tls.key}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: bulk, containerPort: 9201}
        - {name: admin, containerPort: 9202}
      # A start reads the forest from the volume, and catches up with the index.
      startupProbe:
        {{- include "spinney.probe" (list "/_spinney/_health" .) | nindent 8 }}
        periodSeconds: 5
        failureThreshold: 120
      livenessProbe:
        {{- include "spinney.probe" (list "/_spinney/_health" .) | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- include "spinney.probe" (list "/_spinney/_ready" .) | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/spinney/spinney.toml, subPath: spinney.toml, readOnly: true}
        {{- if eq .Values.forest "local" }}
        - {name: forest, mountPath: /var/lib/spinney}
        {{- else if .Values.forestStore.caConfigMap }}
        - {name: forest-store-ca, mountPath: /etc/spinney/forest-store-ca, readOnly: true}
        {{- end }}
        {{- if .Values.upstreamCaConfigMap }}
        - {name: upstream-ca, mountPath: /etc/spinney/upstream-ca, readOnly: true}
        {{- end }}
        {{- if .Values.tls.secretName }}
        - {name: tls, mountPath: /etc/spinney/tls, readOnly: true}
        {{- end }}
  volumes:
    - {name: config, configMap: {name: {{ include "spinney.name" . }}}}
    {{- if and (eq .Values.forest "shared") .Values.forestStore.caConfigMap }}
    - {name: forest-store-ca, configMap: {name: {{ .Values.forestStore.caConfigMap }}}}
    {{- end }}
    {{- if .Values.upstreamCaConfigMap }}
    - {name: upstream-ca, configMap: {name: {{ .Values.upstreamCaConfigMap }}}}
    {{- end }}
    {{- if .Values.tls.secretName }}
    - {name: tls, secret: {secretName: {{ .Values.tls.secretName }}}}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
