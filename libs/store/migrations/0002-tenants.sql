-- What an operator decides about a tenant: policy and caps. One row per tenant, one event per change.
-- Ids are text, not uuid: the wire allows any name (contract, nameSchema).
create table tenants (
  tenant_id text primary key check (tenant_id ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$'),
  sandbox_enabled boolean not null default true,
  compliance_tier text not null default 'standard' check (compliance_tier in ('standard', 'regulated', 'hipaa')),
  min_isolation text not null default 'jail' check (
    min_isolation in ('none', 'process', 'jail', 'container', 'gvisor', 'microvm-emulated', 'microvm')
  ),
  environments text[] not null default '{default-public,internal-only}' check (
    environments <@ array['default-public', 'internal-only']
  ),
  retention_days smallint not null default 30 check (retention_days between 1 and 180),
  redact text[] not null default '{}' check (cardinality(redact) <= 64),
  -- Caps: null means the fleet's default, 0 the kill switch.
  tenant_daily integer check (tenant_daily between 0 and 1000000000),
  agent_hourly integer check (agent_hourly between 0 and 1000000000),
  agents jsonb not null default '{}' check (jsonb_typeof(agents) = 'object'),
  concurrency integer check (concurrency between 1 and 100000),
  max_queued integer check (max_queued between 0 and 10000000),
  weight double precision not null default 1 check (weight between 0.01 and 100),
  rate_per_second double precision check (rate_per_second between 0.001 and 100000),
  burst integer not null default 1 check (burst between 1 and 100000),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint enabled_on_standard_tier_only check (not (sandbox_enabled and compliance_tier <> 'standard'))
);

create table tenant_policy_events (
  id bigint generated always as identity primary key,
  tenant_id text not null,
  actor text not null,
  event_type text not null check (
    event_type in (
      'created', 'deleted', 'compliance_tier', 'sandbox_enabled', 'min_isolation', 'environments', 'retention_days',
      'redact', 'caps'
    )
  ),
  before jsonb,
  after jsonb,
  -- `sql` is whoever changed the row without telling us who it is.
  source text not null check (source in ('api', 'reconciler', 'sql')),
  created_at timestamptz not null default now()
);
create index tenant_policy_events_tenant on tenant_policy_events (tenant_id, id desc);

create trigger append_only before update or delete on tenant_policy_events
  for each row execute function refuse_change();
create trigger no_truncate before truncate on tenant_policy_events
  for each statement execute function refuse_change();
alter table tenant_policy_events enable always trigger append_only;
alter table tenant_policy_events enable always trigger no_truncate;

create function tenant_facts(t tenants) returns jsonb
  language sql
  stable
return jsonb_build_object(
  'compliance_tier', t.compliance_tier,
  'sandbox_enabled', t.sandbox_enabled,
  'min_isolation', t.min_isolation,
  'environments', t.environments,
  'retention_days', t.retention_days,
  'redact', t.redact,
  'caps', jsonb_build_object(
    'tenant_daily', t.tenant_daily,
    'agent_hourly', t.agent_hourly,
    'agents', t.agents,
    'concurrency', t.concurrency,
    'max_queued', t.max_queued,
    'weight', t.weight,
    'rate_per_second', t.rate_per_second,
    'burst', t.burst
  )
);

-- The values to redact are secrets: events only tell how many there are.
create function without_secrets(facts jsonb) returns jsonb
  language sql
  immutable
return facts || jsonb_build_object('redact', jsonb_build_object('count', jsonb_array_length(facts -> 'redact')));

-- Leaving the standard tier switches the sandbox off, whoever does it.
create function switch_off_outside_standard() returns trigger
  language plpgsql
as $$
begin
  if old.compliance_tier = 'standard' and new.compliance_tier <> 'standard' then
    new.sandbox_enabled := false;
  end if;
  new.updated_at := now();
  return new;
end
$$;
create trigger switch_off_outside_standard before update on tenants
  for each row execute function switch_off_outside_standard();

-- One event per changed part; nothing for an update that changes nothing. Runs with the owner's rights, so that the
-- app needs none on the events.
create function record_tenant_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  was jsonb;
  now_is jsonb;
  part text;
begin
  if tg_op = 'INSERT' then
    insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
    values (new.tenant_id, who, 'created', without_secrets(tenant_facts(new)), how);
    return null;
  end if;
  if tg_op = 'DELETE' then
    insert into tenant_policy_events (tenant_id, actor, event_type, before, source)
    values (old.tenant_id, who, 'deleted', without_secrets(tenant_facts(old)), how);
    return null;
  end if;
  was := tenant_facts(old);
  now_is := tenant_facts(new);
  -- Tier first: it is what switches the sandbox off.
  foreach part in array array[
    'compliance_tier', 'sandbox_enabled', 'min_isolation', 'environments', 'retention_days', 'redact', 'caps'
  ] loop
    if was -> part is distinct from now_is -> part then
      insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
      values (new.tenant_id, who, part, without_secrets(was) -> part, without_secrets(now_is) -> part, how);
    end if;
  end loop;
  return null;
end
$$;
create trigger record_tenant_change after insert or update or delete on tenants
  for each row execute function record_tenant_change();
alter table tenants enable always trigger record_tenant_change;

grant select, insert, update on tenants to cofferdam_app;
grant select on tenant_policy_events to cofferdam_app;
