/** No migration locks a large table for long. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { lockProblems } from './migration-locks.ts'

const FOLDER = new URL('../../libs/store/migrations/', import.meta.url)
/** Earlier migrations create these tables, so they find no rows to lock. */
const FIRST_UNDER_RULE = 6

it('every migration can run beside writers', () => {
  const wrong = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql') && Number(name.slice(0, 4)) >= FIRST_UNDER_RULE)
    .flatMap((name) =>
      lockProblems(readFileSync(new URL(name, FOLDER), 'utf8')).map((problem) => `${name}: ${problem}`),
    )
  expect(wrong).toEqual([])
})

it.each([
  'create index slow on results (tenant_id);',
  'create unique index slow\n  on attempts (tenant_id);',
  'alter table results add column x text check (length(x) < 9);',
  'alter table results add constraint x check (length(x) < 9);',
  'alter table results add constraint x foreign key (tenant_id) references tenants;',
  'alter table routine_runs alter column x set not null;',
  'alter table routine_runs alter column x type bigint;',
  'alter table results add column at timestamptz default clock_timestamp();',
  'alter table results add column n bigint generated always as (1) stored;',
  "update results set tenant_id = 'x';",
  'delete from attempts;',
  'alter table results add column x text;\nalter table sandbox_invocations add column x text;',
  'create trigger t before update on sandbox_invocations for each row execute function f();\n' +
    'alter table attempts add column x text;',
])('refuses %s', (sql) => {
  expect(lockProblems(sql)).toHaveLength(1)
})

it.each([
  'create index fast on only sandbox_invocations (finished_at);',
  "alter table results add column x text;\nalter table results alter column x set default 'y';",
  'alter table results add constraint x check (length(x) < 9) not valid;',
  'alter table results add column is_big boolean not null default false;',
  'create table results (x text check (length(x) < 9)); create index on results (x);',
  'create index on api_keys (label); update tenants set weight = 2;',
  'create function f() returns trigger language plpgsql as $$ begin update results set x = 1; end $$;',
  '-- update results set x = 1;',
  'alter table attempts add column x text;\nalter table sandbox_invocations add column x text;\n' +
    'alter table results add column x text;\nalter table attempts add column y text;',
])('allows %s', (sql) => {
  expect(lockProblems(sql)).toEqual([])
})
