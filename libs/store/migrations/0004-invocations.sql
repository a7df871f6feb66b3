-- The audit row of every attempt, the result that its caller sees, and the key that makes both exist once.

-- Milliseconds since the epoch at which a UUIDv7 was made (RFC 9562 §5.7: its first 48 bits).
create function uuid7_ms(id uuid) returns bigint
  language sql
  immutable strict parallel safe
return ('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint;

-- One row per attempt. A unique key of a partitioned table must hold the partition key, so uniqueness of the attempt
-- itself lives here; it also tells in which partition an attempt stands.
create table attempts (
  execution_id uuid not null,
  attempt integer not null check (attempt >= 1),
  expires_on date not null,
  primary key (execution_id, attempt)
);
create index attempts_expiry on attempts (expires_on);

-- Partitioned by expiry day, so that retention is only ever a DROP. Append-only (triggers, grants).
-- tenant, agent, user, run, template and tool call ids are text: the wire allows any name (contract, nameSchema).
create table sandbox_invocations (
  execution_id uuid not null check (substr(execution_id::text, 15, 1) = '7'),
  attempt integer not null check (attempt >= 1),
  tenant_id text not null check (tenant_id ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$'),
  agent_id text not null check (length(agent_id) between 1 and 128),
  user_id text check (length(user_id) <= 128),
  run_id text check (length(run_id) <= 128),
  template_id text check (length(template_id) <= 128),
  tool_call_id text check (length(tool_call_id) <= 128),
  session_id text check (length(session_id) <= 200),
  environment_id text not null check (length(environment_id) <= 128),
  invocation_source text not null check (invocation_source in ('queue', 'chat', 'scheduled', 'composition')),
  backend text check (length(backend) <= 64),
  isolation text check (
    isolation in ('none', 'process', 'jail', 'container', 'gvisor', 'microvm-emulated', 'microvm')
  ),
  interpreter_id text check (length(interpreter_id) <= 200),
  started_at timestamptz not null,
  finished_at timestamptz not null check (finished_at >= started_at),
  duration_ms double precision not null check (duration_ms >= 0),
  queue_ms double precision not null check (queue_ms >= 0),
  session_start_ms double precision check (session_start_ms >= 0),
  exit_status text not null check (
    exit_status in ('ok', 'error', 'timeout', 'oom', 'cap_exceeded', 'provisioning', 'cancelled')
  ),
  ending text not null check (
    ending in (
      'ok', 'error', 'crashed', 'soft_timeout', 'hard_timeout', 'oom', 'pids_limit', 'disk_limit', 'output_limit',
      'cancelled', 'policy_denied', 'cap_exceeded', 'provisioning', 'sandbox_lost', 'worker_lost'
    )
  ),
  exit_code integer,
  error_class text check (length(error_class) <= 64),
  failure_reason text check (length(failure_reason) <= 2000),
  quota_dimension text check (length(quota_dimension) <= 64),
  quota_charged boolean not null,
  charged_at timestamptz,
  stdout_bytes bigint not null check (stdout_bytes >= 0),
  stderr_bytes bigint not null check (stderr_bytes >= 0),
  stdout_truncated boolean not null,
  stderr_truncated boolean not null,
  stdout_ref text check (length(stdout_ref) <= 512),
  stderr_ref text check (length(stderr_ref) <= 512),
  redaction_count integer not null check (redaction_count >= 0),
  peak_memory_mb double precision check (peak_memory_mb >= 0),
  cpu_ms double precision check (cpu_ms >= 0),
  outbound_hosts jsonb not null check (jsonb_typeof(outbound_hosts) = 'array'),
  -- Lowercase hex SHA-256 of the program as submitted.
  executed_code_hash text not null check (executed_code_hash ~ '^[0-9a-f]{64}$'),
  trace_id text check (length(trace_id) <= 64),
  retention_days smallint not null default 30 check (retention_days between 1 and 180),
  created_at timestamptz not null,
  expires_on date not null,
  primary key (expires_on, execution_id, attempt),
  constraint charged_has_time check (quota_charged = (charged_at is not null)),
  -- A re-run after midnight must not slip into another partition: both are functions of the id.
  constraint created_when_id_says check ((extract(epoch from created_at) * 1000)::bigint = uuid7_ms(execution_id)),
  constraint expires_after_retention check (expires_on = (created_at at time zone 'UTC')::date + retention_days),
  -- 180 days after the start is the longest life; the extra day is for clocks that disagree around midnight.
  constraint kept_180_days_at_most check (expires_on <= (started_at at time zone 'UTC')::date + 181)
) partition by range (expires_on);

-- Version-7 ids sort by age: these serve "newest first" with a keyset cursor.
create index on sandbox_invocations (tenant_id, execution_id desc, attempt desc);
create index on sandbox_invocations (tenant_id, agent_id, execution_id desc, attempt desc);
create index on sandbox_invocations (tenant_id, charged_at) where quota_charged;
create index on sandbox_invocations (user_id) where user_id is not null;
create index on sandbox_invocations (run_id) where run_id is not null;

create trigger append_only before update or delete on sandbox_invocations
  for each row execute function refuse_change();
create trigger no_truncate before truncate on sandbox_invocations
  for each statement execute function refuse_change();
alter table sandbox_invocations enable always trigger append_only;
alter table sandbox_invocations enable always trigger no_truncate;

-- What the caller sees. json and not jsonb: program output may hold NUL and lone surrogates, which jsonb refuses.
create table results (
  execution_id uuid not null,
  attempt integer not null,
  tenant_id text not null,
  expires_on date not null,
  result json not null,
  -- Artifacts with their references in the blob store.
  artifacts json not null,
  -- Where the whole visible text stands when `result` holds only its first 16 KiB.
  stdout_spill_ref text,
  stderr_spill_ref text,
  primary key (expires_on, execution_id, attempt)
) partition by range (expires_on);

alter table sandbox_invocations enable row level security;
alter table results enable row level security;
create policy own_tenant on sandbox_invocations for select to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on sandbox_invocations for select to cofferdam_all_tenants using (true);
create policy append on sandbox_invocations for insert to cofferdam_app with check (true);
create policy own_tenant on results for select to cofferdam_app
  using (tenant_id = current_setting('app.tenant_id', true));
create policy all_tenants on results for select to cofferdam_all_tenants using (true);
create policy append on results for insert to cofferdam_app with check (true);

grant select, insert on attempts, sandbox_invocations, results to cofferdam_app;
