{{- define "berth.name" -}}
{{- if contains "berth" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-berth" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "berth.claim" -}}
{{- .Values.persistence.existingClaim | default (include "berth.name" .) }}
{{- end }}

{{- define "berth.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Whether several pods can run at the same time. */}}
{{- define "berth.shared" -}}
{{- if and .Values.database.existingSecret (eq .Values.persistence.accessMode "ReadWriteMany") }}true{{ end }}
{{- end }}

{{/* Settings that the server and `berth init` share: what they may do, and where data is. */}}
{{- define "berth.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "berth.name" . }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: data
    persistentVolumeClaim:
      claimName: {{ include "berth.claim" . }}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- define "berth.container" -}}
image: {{ include "berth.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: BERTH_DATA_DIR
    value: /data
  - name: BERTH_LISTEN
    value: 0.0.0.0:8080
  {{- with .Values.publicUrl }}
  - name: BERTH_PUBLIC_URL
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.trustedProxies }}
  - name: BERTH_TRUSTED_PROXIES
    value: {{ join "," . | quote }}
  {{- end }}
  {{- with .Values.database.existingSecret }}
  - name: BERTH_DATABASE
    valueFrom:
      secretKeyRef:
        name: {{ . }}
        key: {{ $.Values.database.key }}
  {{- end }}
  {{- if .Values.metrics.enabled }}
  - name: BERTH_METRICS__LISTEN
    value: 0.0.0.0:{{ .Values.metrics.port }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumeMounts:
  - name: data
    mountPath: /data
  - name: tmp
    mountPath: /tmp
{{- end }}
