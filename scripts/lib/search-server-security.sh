# Part of scripts/search-server: what only opensearch-secure has (certificates, settings, users).

# A CA, one certificate for all nodes and one of the security plugin's administrator.
make_certificates() {
  need openssl
  local tls=$work/tls subject
  mkdir -p "$tls"
  {
    openssl req -x509 -newkey rsa:2048 -sha256 -nodes -days 30 -subj "/CN=spinney test CA" \
      -keyout "$tls/ca.key" -out "$tls/ca.pem"
    echo "subjectAltName=DNS:localhost,IP:127.0.0.1" >"$tls/node.ext"
    echo "extendedKeyUsage=clientAuth" >"$tls/admin.ext"
    for subject in node admin; do
      openssl req -newkey rsa:2048 -sha256 -nodes -subj "/CN=$subject" \
        -keyout "$tls/$subject.raw" -out "$tls/$subject.csr" &&
        openssl x509 -req -sha256 -days 30 -in "$tls/$subject.csr" -extfile "$tls/$subject.ext" \
          -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial -out "$tls/$subject.pem" &&
        openssl pkcs8 -topk8 -nocrypt -in "$tls/$subject.raw" -out "$tls/$subject.key" || break
    done
  } >"$tls/openssl.log" 2>&1
  [ -s "$tls/admin.key" ] || { cat "$tls/openssl.log" >&2; die "openssl made no certificates; its words are above"; }
  rm -f "$tls"/*.raw "$tls"/*.csr "$tls"/*.ext "$tls"/*.srl
}

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
  security_put roles/spinney_writer '{"cluster_permissions":["cluster_monitor","cluster_composite_ops","cluster_manage_index_templates"],
    "index_permissions":[{"index_patterns":["*"],"allowed_actions":["indices_all"]}]}'
  security_put roles/spinney_reader '{"cluster_permissions":["cluster_composite_ops_ro"],
    "index_permissions":[{"index_patterns":["open-*"],"allowed_actions":["read"]}]}'
  security_put internalusers/writer "{\"password\":\"$writer_password\",\"opendistro_security_roles\":[\"spinney_writer\"]}"
  security_put internalusers/reader "{\"password\":\"$reader_password\",\"opendistro_security_roles\":[\"spinney_reader\"]}"
}

print_security() {
  printf '%s=%q\n' ca "$work/tls/ca.pem" user admin password admin \
    writer writer writer_password "$writer_password" reader reader reader_password "$reader_password" \
    client_cert "$work/tls/admin.pem" client_key "$work/tls/admin.key"
}
