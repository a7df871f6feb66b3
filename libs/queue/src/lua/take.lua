-- Purpose: a worker that fetched the BullMQ job of a release becomes the owner of its execution, and of the
--          session it names.
-- KEYS[1]  record
-- ARGV     1 id, 2 release of the job, 3 worker, 4 its kind
-- Returns  {'taken', fence, attempt, enqueued ms, now, traceparent, '' or began JSON with the fence of the
--          last hand-over to a sandbox on a second line, request JSON, '1' when cancelled, deliveries,
--          tenant, '1' when Redis restarted since the execution was accepted} | {'stale'}
-- Invariants: each take raises the fence, so every write of a former owner fails. The attempt number stays
--          the same until `requeue` ends the attempt. The job of an execution that ended, was put back or was
--          released again is stale. Only the front of a session is ever taken, so a session never has two
--          owners. BullMQ's own fetch knows no kinds: an execution that this worker cannot serve returns to
--          its backlog.
-- Complexity: O(log n).
--- @include clock
--- @include own
--- @include pick
local x = read_for_take(ARGV[1])
if not is_current(x, ARGV[2]) then return { 'stale' } end
local now = now_ms()
if not x[4] and not serves(ARGV[4], x[16]) then
  put_back(ARGV[1], x, now)
  pick(now)
  return { 'stale' }
end
return own(ARGV[1], x, ARGV[3], ARGV[4], now, false)
