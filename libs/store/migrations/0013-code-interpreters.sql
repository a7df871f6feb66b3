-- Which code interpreter at AgentCore is a tenant's own, one per environment. A row without an id is wanted and not there
-- yet; the reconciler (libs/backends/src/agentcore/provision) fills it.
create table code_interpreters (
  tenant_id text not null references tenants on delete cascade,
  environment text not null check (environment in ('default-public', 'internal-only')),
  -- Its id at the service, `<name>-<10 characters>`. Two tenants never share one.
  interpreter_id text unique check (interpreter_id ~ '^[a-zA-Z][a-zA-Z0-9_]{0,47}-[a-zA-Z0-9]{10}$'),
  -- Rises whenever an id is forgotten, and goes into the token of the next creation: a token of before would be answered
  -- with the interpreter that is gone.
  generation integer not null default 1 check (generation >= 1),
  requested_at timestamptz not null default now(),
  -- When the id was written; null exactly when there is none.
  provisioned_at timestamptz,
  primary key (tenant_id, environment),
  constraint id_has_time check ((interpreter_id is null) = (provisioned_at is null))
);

-- One event per change: an execution's audit row names an interpreter, this tells whose it was and since when.
create table code_interpreter_events (
  id bigint generated always as identity primary key,
  tenant_id text not null,
  environment text not null,
  actor text not null,
  event_type text not null check (event_type in ('requested', 'provisioned', 'forgotten', 'removed')),
  before text,
  after text,
  -- `sql` is whoever changed the row without telling us who it is.
  source text not null check (source in ('api', 'reconciler', 'sql')),
  created_at timestamptz not null default now()
);
create index code_interpreter_events_tenant on code_interpreter_events (tenant_id, id desc);

create trigger append_only before update or delete on code_interpreter_events
  for each row execute function refuse_change();
create trigger no_truncate before truncate on code_interpreter_events
  for each statement execute function refuse_change();
alter table code_interpreter_events enable always trigger append_only;
alter table code_interpreter_events enable always trigger no_truncate;

-- Runs with the owner's rights, so that the app needs none on the events.
create function record_interpreter_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  was text := case when tg_op = 'INSERT' then null else old.interpreter_id end;
  now_is text := case when tg_op = 'DELETE' then null else new.interpreter_id end;
begin
  if tg_op = 'UPDATE' and was is not distinct from now_is then
    return null;
  end if;
  insert into code_interpreter_events (tenant_id, environment, actor, event_type, before, after, source)
  values (
    coalesce(new.tenant_id, old.tenant_id), coalesce(new.environment, old.environment), who,
    case
      when tg_op = 'DELETE' then 'removed'
      when now_is is not null then 'provisioned'
      when tg_op = 'INSERT' then 'requested'
      else 'forgotten'
    end,
    was, now_is, how
  );
  return null;
end
$$;
create trigger record_interpreter_change after insert or update or delete on code_interpreters
  for each row execute function record_interpreter_change();
alter table code_interpreters enable always trigger record_interpreter_change;

alter table code_interpreters enable row level security;
alter table code_interpreter_events enable row level security;
create policy own_tenant on code_interpreters to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true))
  with check (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on code_interpreters to cofferdam_all_tenants using (true) with check (true);
create policy own_tenant on code_interpreter_events for select to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on code_interpreter_events for select to cofferdam_all_tenants using (true);

-- A tenant's own requests read; what writes works for all of them.
grant select on code_interpreters, code_interpreter_events to cofferdam_app;
grant insert, update, delete on code_interpreters to cofferdam_all_tenants;
