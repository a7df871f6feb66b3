-- Workspaces of tenants: named files that executions find and change. One row holds which files there are, under a version that
-- rises with every commit; contents stand apart, once per hash.
create table workspaces (
  tenant_id text not null references tenants,
  name text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$'),
  version bigint not null check (version >= 1),
  -- [[path, sha256, size, mode], …]; json keeps it as written.
  files json not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, name)
);
create table workspace_contents (
  tenant_id text not null,
  name text not null,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  content bytea not null,
  -- Encrypted with a configured output key.
  sealed boolean not null,
  primary key (tenant_id, name, sha256),
  foreign key (tenant_id, name) references workspaces on delete cascade
);
-- Compressed or encrypted already, or source that is read whole: compressing costs more than it saves.
alter table workspace_contents alter column content set storage external;

alter table workspaces enable row level security;
alter table workspace_contents enable row level security;
create policy own_tenant on workspaces to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true))
  with check (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on workspaces to cofferdam_all_tenants using (true) with check (true);
create policy own_tenant on workspace_contents to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true))
  with check (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on workspace_contents to cofferdam_all_tenants using (true) with check (true);
grant select, insert, update, delete on workspaces, workspace_contents to cofferdam_app;

-- Polyclaw's sandbox: one configuration for the fleet (seed 004), whom its Azure resources belong to, and what is being made
-- or removed of them. Only admins' requests reach these tables.
create table sandbox_config (
  singleton boolean primary key default true check (singleton),
  version bigint not null default 1,
  enabled boolean not null default false,
  sync_data boolean not null default true,
  session_pool_endpoint text not null default '' check (length(session_pool_endpoint) <= 2048),
  whitelist text[] not null check (cardinality(whitelist) <= 256),
  resource_group text not null default '',
  location text not null default '',
  pool_name text not null default '',
  pool_id text not null default '',
  -- Value of the tag fleet-owner: never changes.
  fleet_owner text not null default gen_random_uuid()::text,
  -- The plan that a process is carrying out, or that a dead one left; its holder renews the lease.
  work text check (work in ('making', 'removing')),
  plan jsonb,
  step text,
  lease uuid,
  lease_until timestamptz,
  updated_at timestamptz not null default now(),
  constraint plan_of_work check ((work is null) = (plan is null))
);
insert into sandbox_config (whitelist) values (
  '{media,memory,notes,sessions,skills,.copilot,.env,.workiq.json,agent_profile.json,conversation_refs.json,infra.json,interaction_log.json,mcp_servers.json,plugins.json,scheduler.json,skill_usage.json,SOUL.md}'
);

-- Resources of ours at Azure that could not be removed: they may still cost money.
create table sandbox_orphans (
  id bigint generated always as identity primary key,
  resource_id text not null check (length(resource_id) <= 1000),
  reason text not null check (length(reason) <= 1000),
  created_at timestamptz not null default now(),
  resolved_at timestamptz
);
create unique index sandbox_orphans_open on sandbox_orphans (resource_id) where resolved_at is null;

create table sandbox_config_events (
  id bigint generated always as identity primary key,
  actor text not null,
  event_type text not null check (event_type in ('changed', 'making', 'made', 'removing', 'removed', 'failed')),
  before jsonb,
  after jsonb,
  -- `sql` is whoever changed the row without telling us who it is.
  source text not null check (source in ('api', 'reconciler', 'sql')),
  created_at timestamptz not null default now()
);
create trigger append_only before update or delete on sandbox_config_events
  for each row execute function refuse_change();
create trigger no_truncate before truncate on sandbox_config_events
  for each statement execute function refuse_change();
alter table sandbox_config_events enable always trigger append_only;
alter table sandbox_config_events enable always trigger no_truncate;

create function sandbox_config_facts(c sandbox_config) returns jsonb
  language sql
  stable
return jsonb_build_object(
  'enabled', c.enabled,
  'sync_data', c.sync_data,
  'session_pool_endpoint', c.session_pool_endpoint,
  'whitelist', c.whitelist,
  'resource_group', c.resource_group,
  'location', c.location,
  'pool_name', c.pool_name,
  'pool_id', c.pool_id
);

-- Runs with the owner's rights, so that the app needs none on the events. A renewed lease is no event.
create function record_sandbox_config_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  was jsonb := sandbox_config_facts(old);
  now_is jsonb := sandbox_config_facts(new);
  kind text := case
    when new.work is not null and new.work is distinct from old.work then new.work
    when old.work is not null and new.work is null then case
      when old.work = 'making' and new.pool_id <> '' then 'made'
      when old.work = 'removing' and new.pool_id = '' then 'removed'
      else 'failed'
    end
    when was is distinct from now_is then 'changed'
  end;
begin
  if kind is not null then
    insert into sandbox_config_events (actor, event_type, before, after, source)
    values (who, kind, was || jsonb_build_object('plan', old.plan), now_is || jsonb_build_object('plan', new.plan), how);
  end if;
  return null;
end
$$;
create trigger record_sandbox_config_change after update on sandbox_config
  for each row execute function record_sandbox_config_change();
alter table sandbox_config enable always trigger record_sandbox_config_change;

grant select on sandbox_config, sandbox_config_events to cofferdam_all_tenants;
grant update on sandbox_config to cofferdam_all_tenants;
grant select, insert, update on sandbox_orphans to cofferdam_all_tenants;
