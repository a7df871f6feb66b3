/** Runs the double until it is stopped: `node infra/doubles/oauth/main.ts --port 0 --tenant demo`. */
import { parseArgs } from 'node:util'
import { startOAuthDouble } from './oauth-double.ts'

const { values } = parseArgs({
  options: { port: { type: 'string', default: '0' }, tenant: { type: 'string', default: 'demo' } },
})
if (!/^\d{1,5}$/.test(values.port)) throw new Error('expected --port N')
const double = await startOAuthDouble({ port: Number(values.port), tenant: values.tenant })
console.log(JSON.stringify({ double: 'oauth', issuer: double.issuer }))
