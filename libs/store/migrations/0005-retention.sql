-- Partitions come and go through these two functions alone; they run with the owner's rights.

-- Makes the partitions of one expiry day when they are absent. Safe to call from many sessions at once. ATTACH takes a
-- lock that lets writers and readers of the other partitions go on (CREATE … PARTITION OF would stop them).
create function ensure_partition(day date) returns void
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
  -- Any constant of ours: it only has to differ from the migration lock.
  perform pg_advisory_xact_lock(7020260002);
  foreach parent in array array['sandbox_invocations', 'results'] loop
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    -- Not to_regclass: an advisory lock does not refresh the session's cached "there is no such table".
    continue when exists (
      select from pg_class where relname = child and relnamespace = 'public'::regnamespace
    );
    execute format('create table public.%I (like public.%I including all)', child, parent);
    if parent = 'sandbox_invocations' then
      -- Row triggers are cloned by ATTACH; a statement trigger of the parent does not cover its partitions.
      execute format(
        'create trigger no_truncate before truncate on public.%I for each statement execute function refuse_change()',
        child
      );
      execute format('alter table public.%I enable always trigger no_truncate', child);
    end if;
    execute format(
      'alter table public.%I attach partition public.%I for values from (%L) to (%L)',
      parent, child, day, day + 1
    );
    if parent = 'sandbox_invocations' then
      execute format('alter table public.%I enable always trigger append_only', child);
    end if;
  end loop;
end
$$;

-- Drops the partitions whose expiry day is over, at most 32 days a call, and returns the days. The caller's date can
-- only make it drop less: nothing goes before the server's own clock says so. A partition that somebody reads right
-- now is left for the next call.
create function drop_expired(today date) returns setof date
  language plpgsql
  security definer
  set search_path = public, pg_temp
  set datestyle = 'ISO, YMD'
  set lock_timeout = '2s'
as $$
declare
  cutoff date := least(today, (now() at time zone 'UTC')::date);
  day date;
begin
  for day in
    select distinct to_date(right(c.relname, 8), 'YYYYMMDD')
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_class p on p.oid = i.inhparent
    where i.inhparent in ('public.sandbox_invocations'::regclass, 'public.results'::regclass)
      and c.relname ~ '^(sandbox_invocations|results)_[0-9]{8}$'
      and c.relname = p.relname || '_' || right(c.relname, 8)
      -- The bounds must say the same as the name.
      and pg_get_expr(c.relpartbound, c.oid) = format(
        'FOR VALUES FROM (%L) TO (%L)',
        to_date(right(c.relname, 8), 'YYYYMMDD'),
        to_date(right(c.relname, 8), 'YYYYMMDD') + 1
      )
      and to_date(right(c.relname, 8), 'YYYYMMDD') < cutoff
    order by 1
    limit 32
  loop
    begin
      execute format('drop table if exists public.%I', 'sandbox_invocations_' || to_char(day, 'YYYYMMDD'));
      execute format('drop table if exists public.%I', 'results_' || to_char(day, 'YYYYMMDD'));
      delete from attempts where expires_on = day;
      return next day;
    exception when lock_not_available then
      null;
    end;
  end loop;
end
$$;

revoke all on function ensure_partition(date), drop_expired(date) from public;
grant execute on function ensure_partition(date), drop_expired(date) to cofferdam_app;
