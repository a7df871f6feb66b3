-- The life of the server, by its run id. A server that came back may have lost its last second (AOF everysec), a promoted replica
-- what it had not received: both have another. '' where the server hides it, and then nothing is noticed. Asked here (4 us) and not
-- told by the caller: what a broken connection left unanswered is sent again, with what was true of the server before.
local life_asked
local function life()
  if not life_asked then
    local info = redis.pcall('INFO', 'server')
    local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
    life_asked = string.sub(run, 1, C.life_digits)
  end
  return life_asked
end
