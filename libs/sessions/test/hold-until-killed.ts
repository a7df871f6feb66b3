/** A process that claims a session, keeps an entry, and holds it until killed. Arguments: Redis URL, name. */
import type { SessionName } from '@cofferdam/contract'
import { entryAt, openSessions } from './open-sessions.ts'

const [url = '', name = '{}'] = process.argv.slice(2)
const lease = await openSessions(url, { leaseMs: 3000 }).claim(JSON.parse(name) as SessionName)
await lease.keep({ ...entryAt(lease.nextEpoch, Date.now() + 3_600_000), handle: { id: 'of-the-dead' } })
process.send?.('held')
