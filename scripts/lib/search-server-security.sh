# Part of scripts/search-server: what only opensearch-secure has (settings, users).

security_settings() {
  cat <<'END'
plugins.security.ssl.transport.pemcert_filepath: node.pem
plugins.security.ssl.transport.pemkey_filepath: node.key
plugins.security.ssl.transport.pemtrustedcas_filepath: ca.pem
plugins.security.ssl.http.enabled: true
plugins.security.ssl.http.pemcert_filepath: node.pem
plugins.security.ssl.http.pemkey_filepath: node.key
plugins.security.ssl.http.pemtrustedcas_filepath: ca.pem
plugins.security.nodes_dn: ["CN=node"]
plugins.security.authcz.admin_dn: ["CN=admin"]
plugins.security.allow_unsafe_democertificates: true
plugins.security.allow_default_init_securityindex: true
plugins.security.restapi.roles_enabled: ["all_access"]
END
}

# writer: anything with indices. reader: reads open-*, nothing else.
make_users() {
  local api=/_plugins/_security/api
  security_put() { request 1 PUT "$api/$1" "$2" >/dev/null || die "$name: the security plugin refused $1"; }
  security_put roles/spinney_writer '{
    "cluster_permissions":["cluster_monitor","cluster_composite_ops","cluster_manage_index_templates"],
    "index_permissions":[{"index_patterns":["*"],"allowed_actions":["indices_all"]}]}'
  security_put roles/spinney_reader '{"cluster_permissions":["cluster_composite_ops_ro"],
    "index_permissions":[{"index_patterns":["open-*"],"allowed_actions":["read"]}]}'
  user() { printf '{"password":"%s","opendistro_security_roles":["%s"]}' "$1" "$2"; }
  security_put internalusers/writer "$(user "$writer_password" spinney_writer)"
  security_put internalusers/reader "$(user "$reader_password" spinney_reader)"
}

print_security() {
  printf '%s=%q\n' ca "$work/tls/ca.pem" user admin password admin \
    writer writer writer_password "$writer_password" reader reader reader_password "$reader_password" \
    client_cert "$work/tls/admin.pem" client_key "$work/tls/admin.key"
}
