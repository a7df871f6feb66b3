-- Public status of a stored state: a released execution still waits for a worker.
local function status_of(state)
  if state == 'released' then return 'queued' end
  return state or 'ended'
end
