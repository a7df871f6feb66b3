-- Purpose: a worker takes the next execution of a lane whose worker died and that had begun, to end it. It
--          needs no slot for that.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 lane, 2 token of its lock, 3 worker, 4 its kind, 5 lock milliseconds
-- Returns  {'taken', …as take.lua} with the job behind it | {'none'}
-- Invariants: those of take.lua. Of what BullMQ found stalled (its list `wait`, where our releases never
--          are), only what has begun is taken. What has not goes back into its backlog, and waits there for
--          a slot of a worker that can serve it; stale jobs end.
-- Complexity: O(log n), times C.promote_max at most for those that go back, plus the picks.
--- @include clock
--- @include own
--- @include put-back
--- @include pick
local lane, token, worker, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now, reply = now_ms(), nil
for _ = 1, C.promote_max do
  local job = job_pop_stalled(lane)
  if not job then break end
  local id, release = execution_of(job)
  local x = read_for_take(id)
  local is_ours = is_current(x, release)
  if is_ours and x[4] then
    job_lock(lane, job, worker, kind, token, ARGV[5], now, true)
    reply = own(id, x, worker, kind, now, false)
    reply[#reply + 1] = job
    break
  end
  job_delete(lane, job)
  if is_ours then put_back(id, x, now) end
end
write_now()
pick(now)
return reply or { 'none' }
