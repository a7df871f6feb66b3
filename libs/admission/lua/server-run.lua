-- Prepended to scripts whose caller names the run of the server for which the tenant's counters were
-- verified. A broken connection repeats unanswered calls, which may then name an earlier run. The server
-- knows its own run ID (INFO, 4 us). If it hides that (server-run.ts), the caller is trusted. A cluster's run
-- is the list of its masters' run IDs.
local own_run
local function is_this_run(told)
  if not own_run then
    local info = redis.pcall('INFO', 'server')
    own_run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  end
  return own_run == '' or told == 'hidden' or string.find(told, own_run, 1, true) ~= nil
end
