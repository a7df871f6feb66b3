-- Prepended to scripts whose caller names the server run for which the tenant's counters were verified. That
-- name can be out of date: after a broken connection, the client repeats unanswered calls. So the script
-- compares it with the server's own run ID (INFO, 4 us). If INFO is hidden (server-run.ts), the caller is
-- trusted. A cluster's run is the list of its masters' run IDs.
local own_run
local function is_this_run(told)
  if not own_run then
    local info = redis.pcall('INFO', 'server')
    own_run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  end
  return own_run == '' or told == 'hidden' or string.find(told, own_run, 1, true) ~= nil
end
