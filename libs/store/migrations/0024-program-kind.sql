-- What an attempt ran, to filter by: `script/python`, `command`, `tests` … (contract, programKindOf). Null:
-- recorded before this. NOT VALID: new rows are checked, and old ones, which are all null, are not read.
alter table sandbox_invocations add column program_kind text;
alter table sandbox_invocations
  add constraint program_kind_is_short check (length(program_kind) between 1 and 64) not valid;
