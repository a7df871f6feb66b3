-- Purpose: a worker got the BullMQ job of a release; it becomes the owner, also of the session that it names.
-- KEYS[1]  record
-- ARGV     1 id, 2 release of the job, 3 worker, 4 its kind
-- Returns  {'taken', fence, attempt, enqueued ms, now, traceparent, '' or began JSON with the fence of a
--          hand-over on a second line, request JSON, '1' when
--          cancelled, deliveries, tenant, '1' when it was accepted in an earlier life of the server} | {'stale'}
-- Invariants: each take raises the fence, so every write of an earlier owner fails. The attempt number stays the
--          same until `requeue` ends the attempt. A job of an ended, requeued or re-released execution is stale.
--          Only the front of a session is ever taken, so its owner is never disputed. BullMQ's own fetch
--          knows nothing of kinds: what the worker cannot serve goes back to its backlog.
-- Complexity: O(log n).
--- @include clock
--- @include own
--- @include put-back
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
