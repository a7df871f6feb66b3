-- Public status of a stored state. A released execution still waits for a worker, and one that a worker took waits
-- for memory and a sandbox until `begin` sets `started`: both are queued to whoever asks.
local function status_of(state, started)
  if state == 'released' or (state == 'running' and not started) then return 'queued' end
  return state or 'ended'
end
