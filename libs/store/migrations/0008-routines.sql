-- Executions that run by a schedule or by hand, what came of each time that they were due, and the secrets by which
-- callbacks are signed.
create table routines (
  routine_id text primary key check (routine_id ~ '^rtn_[0-9a-f]{32}$'),
  tenant_id text not null references tenants,
  agent_id text not null check (length(agent_id) between 1 and 128),
  template_id text check (length(template_id) <= 128),
  name text not null check (length(name) between 1 and 200),
  -- json and not jsonb: a program may hold NUL, which jsonb refuses. As the caller wrote it; checked again at each run.
  request json not null,
  -- Null: run by hand only.
  schedule jsonb check (
    schedule is null
    or coalesce(jsonb_typeof(schedule -> 'cron'), 'missing') = 'string'
    or coalesce(jsonb_typeof(schedule -> 'every_ms'), 'missing') = 'number'
  ),
  enabled boolean not null default true,
  concurrency text not null default 'forbid' check (concurrency in ('allow', 'forbid', 'replace')),
  callback_url text check (length(callback_url) <= 2048),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index routines_tenant on routines (tenant_id, routine_id desc);
create index routines_scheduled on routines (routine_id) where enabled and schedule is not null;

-- The newest runs of each routine (libs/store/src/routines.ts keeps 200); the audit row of an execution outlives them.
create table routine_runs (
  run_id bigint generated always as identity primary key,
  routine_id text not null references routines on delete cascade,
  tenant_id text not null,
  -- The moment it was due, or a word of its own for a run by hand: one trigger makes one run.
  trigger_key text not null check (length(trigger_key) between 1 and 300),
  scheduled_at timestamptz,
  fired_at timestamptz not null default now(),
  outcome text not null check (outcome in ('enqueued', 'skipped', 'refused')),
  reason text check (length(reason) <= 500),
  execution_id uuid,
  unique (routine_id, trigger_key),
  constraint enqueued_has_execution check ((outcome = 'enqueued') = (execution_id is not null))
);
create index routine_runs_newest on routine_runs (routine_id, run_id desc);

-- One event per change. The request itself may hold secrets of the program: its hash stands for it.
create table routine_events (
  id bigint generated always as identity primary key,
  tenant_id text not null,
  routine_id text not null,
  actor text not null,
  event_type text not null check (event_type in ('created', 'changed', 'deleted')),
  before jsonb,
  after jsonb,
  -- `sql` is whoever changed the row without telling us who it is.
  source text not null check (source in ('api', 'reconciler', 'sql')),
  created_at timestamptz not null default now()
);
create index routine_events_tenant on routine_events (tenant_id, id desc);

create trigger append_only before update or delete on routine_events
  for each row execute function refuse_change();
create trigger no_truncate before truncate on routine_events
  for each statement execute function refuse_change();
alter table routine_events enable always trigger append_only;
alter table routine_events enable always trigger no_truncate;

create function routine_facts(r routines) returns jsonb
  language sql
  stable
return jsonb_build_object(
  'agent_id', r.agent_id,
  'template_id', r.template_id,
  'name', r.name,
  'request_sha256', encode(sha256(convert_to(r.request::text, 'UTF8')), 'hex'),
  'schedule', r.schedule,
  'enabled', r.enabled,
  'concurrency', r.concurrency,
  'callback_url', r.callback_url
);

-- Runs with the owner's rights, so that the app needs none on the events.
create function record_routine_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  was jsonb := case when tg_op = 'INSERT' then null else routine_facts(old) end;
  now_is jsonb := case when tg_op = 'DELETE' then null else routine_facts(new) end;
begin
  if was is distinct from now_is then
    insert into routine_events (tenant_id, routine_id, actor, event_type, before, after, source)
    values (
      coalesce(new.tenant_id, old.tenant_id), coalesce(new.routine_id, old.routine_id), who,
      case tg_op when 'INSERT' then 'created' when 'DELETE' then 'deleted' else 'changed' end, was, now_is, how
    );
  end if;
  return null;
end
$$;
create trigger record_routine_change after insert or update or delete on routines
  for each row execute function record_routine_change();
alter table routines enable always trigger record_routine_change;

-- What callbacks of a tenant are signed by. `sealed`: encrypted with a configured output key (libs/store/src/callback-secrets.ts).
create table callback_secrets (
  tenant_id text primary key references tenants,
  secret bytea not null check (octet_length(secret) between 24 and 4096),
  sealed boolean not null,
  -- Still signed with for a day, so that receivers can change over.
  previous bytea check (octet_length(previous) between 24 and 4096),
  previous_sealed boolean,
  rotated_at timestamptz not null default now(),
  constraint previous_is_whole check ((previous is null) = (previous_sealed is null))
);

alter table routines enable row level security;
alter table routine_runs enable row level security;
alter table routine_events enable row level security;
alter table callback_secrets enable row level security;
create policy own_tenant on routines to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true))
  with check (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on routines to cofferdam_all_tenants using (true) with check (true);
create policy own_tenant on routine_runs to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true))
  with check (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on routine_runs to cofferdam_all_tenants using (true) with check (true);
create policy own_tenant on routine_events for select to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on routine_events for select to cofferdam_all_tenants using (true);
create policy own_tenant on callback_secrets to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true))
  with check (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on callback_secrets to cofferdam_all_tenants using (true) with check (true);

grant select, insert, update, delete on routines, callback_secrets to cofferdam_app;
grant select, insert, delete on routine_runs to cofferdam_app;
grant select on routine_events to cofferdam_app;
