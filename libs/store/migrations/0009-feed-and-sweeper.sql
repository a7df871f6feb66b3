-- Breaking: drop_expired belongs to a role of its own now; workers of before warn at it until they are replaced.
-- Replaces: a24a437101c8afb9767bcd9460b6b685be3b157d2904dde5cb1ff7436c7d4ea7
-- The former content made the same, with an index that stopped all writers until it was built.
-- A third role, the order in which rows were recorded, and the rest of what must not change.
--   cofferdam_sweeper      drops what expired, and nothing else: it reads no audit row and writes none
do $$
declare
  may_set boolean;
begin
  if not exists (select from pg_roles where rolname = 'cofferdam_sweeper') then
    begin
      create role cofferdam_sweeper nologin;
    exception when duplicate_object or unique_violation then
      null;
    end;
  end if;
  if current_setting('server_version_num')::int >= 160000 then
    execute 'select pg_has_role(current_user, ''cofferdam_sweeper'', ''set'')' into may_set;
  else
    may_set := pg_has_role(current_user, 'cofferdam_sweeper', 'member');
  end if;
  if not may_set then
    execute format('grant cofferdam_sweeper to %I', current_user);
  end if;
end
$$;
grant usage on schema public to cofferdam_sweeper;
grant select on attempts to cofferdam_sweeper;
revoke execute on function drop_expired(date) from cofferdam_app;
grant execute on function drop_expired(date) to cofferdam_sweeper;

-- Rows do not become visible in the order of their ids (a long run has an old one), nor of any clock or sequence
-- (transactions overlap). The transaction that wrote a row tells: every one below the snapshot's xmin is over, so a
-- reader that stops there and goes on from there misses none (libs/store/src/feed.ts). 0: recorded before this.
alter table attempts add column recorded_xid xid8 not null default '0';
alter table attempts alter column recorded_xid set default pg_current_xact_id();
-- The index attempts_recorded (recorded_xid, execution_id, attempt) is built by the migrating process, while others
-- write (src/late-indexes.ts).
-- The writer does not choose it.
revoke insert on attempts from cofferdam_app;
grant insert (execution_id, attempt, expires_on) on attempts to cofferdam_app;

-- Results and the register of attempts are history, too.
create trigger append_only before update or delete on results for each row execute function refuse_change();
create trigger no_truncate before truncate on results for each statement execute function refuse_change();
alter table results enable always trigger append_only;
alter table results enable always trigger no_truncate;

create function refuse_early_delete() returns trigger
  language plpgsql
as $$
begin
  -- Attempts of a day that is over go with its partitions (drop_expired).
  if tg_op = 'DELETE' and old.expires_on < (now() at time zone 'UTC')::date then
    return old;
  end if;
  raise exception 'attempts is append-only: % is refused', tg_op using errcode = 'restrict_violation';
end
$$;
create trigger append_only before update or delete on attempts for each row execute function refuse_early_delete();
create trigger no_truncate before truncate on attempts for each statement execute function refuse_change();
alter table attempts enable always trigger append_only;
alter table attempts enable always trigger no_truncate;

do $$
declare
  child text;
begin
  for child in select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'public.results'::regclass
  loop
    execute format(
      'create trigger no_truncate before truncate on public.%I for each statement execute function refuse_change()', child
    );
    execute format('alter table public.%I enable always trigger no_truncate', child);
    execute format('alter table public.%I enable always trigger append_only', child);
  end loop;
end
$$;

-- As in 0005, with the triggers of both parents.
create or replace function ensure_partition(day date) returns void
  language plpgsql
  security definer
  set search_path = public, pg_temp
  set datestyle = 'ISO, YMD'
as $$
declare
  parent text;
  child text;
begin
  if day is null or abs(day - current_date) > 3650 then
    raise exception 'no partition for %: more than ten years away', day using errcode = 'datetime_field_overflow';
  end if;
  if to_regclass('public.sandbox_invocations_' || to_char(day, 'YYYYMMDD')) is not null
    and to_regclass('public.results_' || to_char(day, 'YYYYMMDD')) is not null then
    return;
  end if;
  perform pg_advisory_xact_lock(7020260002);
  foreach parent in array array['sandbox_invocations', 'results'] loop
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    continue when exists (
      select from pg_class where relname = child and relnamespace = 'public'::regnamespace
    );
    execute format('create table public.%I (like public.%I including all)', child, parent);
    -- Row triggers are cloned by ATTACH; a statement trigger of the parent does not cover its partitions.
    execute format(
      'create trigger no_truncate before truncate on public.%I for each statement execute function refuse_change()', child
    );
    execute format('alter table public.%I enable always trigger no_truncate', child);
    execute format(
      'alter table public.%I attach partition public.%I for values from (%L) to (%L)', parent, child, day, day + 1
    );
    execute format('alter table public.%I enable always trigger append_only', child);
  end loop;
end
$$;

-- What an owner of the schema may have done that the triggers cannot refuse, one line each; none when all is well.
-- For operators: reads every row, a second for a million.
create function audit_faults() returns table (at_table text, fault text)
  language sql
  stable
  security definer
  set search_path = public, pg_temp
as $$
  with guarded as (
    select c.oid, c.relname::text as name, c.relkind, c.relrowsecurity
    from pg_class c
    where c.relnamespace = 'public'::regnamespace
      and (c.relname in ('sandbox_invocations', 'results', 'attempts')
        or c.relname ~ '^(sandbox_invocations|results)_[0-9]{8}$')
      and c.relkind in ('r', 'p')
  )
  select name, 'trigger ' || wanted || ' is missing or switched off'
  from guarded cross join unnest(array['append_only', 'no_truncate']) wanted
  where not exists (
    select from pg_trigger t where t.tgrelid = guarded.oid and t.tgname = wanted and t.tgenabled = 'A'
  )
  union all
  select name, 'row-level security is switched off'
  from guarded where relkind = 'p' and not relrowsecurity
  union all
  select name, 'is no partition of its parent'
  from guarded where name ~ '_[0-9]{8}$' and not exists (select from pg_inherits i where i.inhrelid = guarded.oid)
  union all
  select name, role || ' may ' || lower(privilege)
  from guarded cross join unnest(array['cofferdam_app', 'cofferdam_all_tenants', 'cofferdam_sweeper']) role
    cross join unnest(array['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) privilege
  where has_table_privilege(role, guarded.oid, privilege)
  union all
  select name, role || ' may select past row-level security'
  from guarded cross join unnest(array['cofferdam_app', 'cofferdam_all_tenants', 'cofferdam_sweeper']) role
  where name ~ '_[0-9]{8}$' and has_table_privilege(role, guarded.oid, 'SELECT')
  union all
  select 'sandbox_invocations', format('%s attempts expire on %s, but %s rows are there', coalesce(a.n, 0), day, coalesce(s.n, 0))
  from (select expires_on as day, count(*) as n from attempts group by 1) a
    full join (select expires_on as day, count(*) as n from sandbox_invocations group by 1) s using (day)
  where a.n is distinct from s.n
$$;
revoke all on function audit_faults() from public;
grant execute on function audit_faults() to cofferdam_sweeper;
