-- Population-level settings: a template opts its agents into sandboxing.
create table templates (
  tenant_id text not null references tenants,
  template_id text not null check (template_id ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$'),
  -- Null: the template does not opt in.
  sandbox_environment text check (sandbox_environment in ('default-public', 'internal-only')),
  updated_by text not null,
  updated_at timestamptz not null default now(),
  primary key (tenant_id, template_id)
);

-- API keys: the key itself is shown once and never stored. 160 random bits need no slow hash.
create table api_keys (
  id uuid primary key default gen_random_uuid(),
  key_sha256 bytea not null unique check (octet_length(key_sha256) = 32),
  -- Null: an admin key.
  tenant_id text references tenants,
  label text not null check (length(label) <= 200),
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  -- Kept to the minute.
  last_used_at timestamptz
);
create index api_keys_tenant on api_keys (tenant_id, created_at);

grant select, insert, update on templates to cofferdam_app;
grant select, insert on api_keys to cofferdam_app;
-- A key can be revoked and used, never moved to another tenant.
grant update (revoked_at, last_used_at) on api_keys to cofferdam_app;
