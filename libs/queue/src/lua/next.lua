-- Purpose: a worker is through with a BullMQ job: the job ends, and the lane's next one is fetched and taken in the same step.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 lane, 2 job that ends, 3 token of its lock and of the next one's, 4 '1' to take the next one, 5 worker,
--          6 lock milliseconds, 7 life of the server
-- Returns  {'taken', …as take.lua} with the job behind it | {'none'}
-- Invariants: those of take.lua; stale jobs on the way end. An execution whose answer is lost is redelivered when its
--          lock ran out, as one whose worker died.
-- Complexity: O(log n + active jobs of the lane), times C.promote_max at most for stale ones.
--- @include clock
--- @include own
--- @include run-queue
local lane, token, worker = ARGV[1], ARGV[3], ARGV[5]
job_end(lane, ARGV[2], token)
if ARGV[4] ~= '1' then return job_none(lane) end
for _ = 1, C.promote_max do
  local job = job_next(lane)
  if not job then return job_none(lane) end
  local id, release = string.match(job, '^([^.]*)%.?(%d*)$')
  local x = read_for_take(id)
  if is_current(x, release == '' and '1' or release) then
    local now = now_ms()
    job_lock(lane, job, worker, token, ARGV[6], now)
    local reply = own(id, x, worker, now, false, ARGV[7])
    reply[#reply + 1] = job
    return reply
  end
  redis.call('DEL', K.bull .. lane .. ':' .. job)
end
return job_none(lane)
