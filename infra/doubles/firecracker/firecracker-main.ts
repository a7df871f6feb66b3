/**
 * Stands in for the binary `firecracker`: `node firecracker-main.ts CONFIG --id ID --api-sock PATH …`. The
 * jailer’s double does not chroot, because a jail has no Node.js. Instead it passes `--double-root ROOT`, and
 * this program resolves the API’s paths below ROOT.
 */
import { appendFileSync, constants, createWriteStream, openSync, type WriteStream } from 'node:fs'
import { open, readFile, stat, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readDouble, type ApiFault } from './faults.ts'
import type { Guest } from './guest.ts'
import { createMachineGuest } from './machine-guest.ts'
import { createProcessGuest } from './process-guest.ts'
import { createVmm, type Answer, type MachineConfig, type Underneath } from './vmm.ts'
import { listenVsock, type VsockListener } from './vsock-listener.ts'

const [configPath = '', ...words] = process.argv.slice(2)
const config = readDouble(configPath)
const { values } = parseArgs({
  args: words,
  options: {
    id: { type: 'string', default: 'anonymous-instance' },
    'api-sock': { type: 'string', default: '/run/firecracker.socket' },
    'start-time-us': { type: 'string' },
    'start-time-cpu-us': { type: 'string' },
    'parent-cpu-time-us': { type: 'string' },
    'double-root': { type: 'string', default: '/' },
    version: { type: 'boolean', default: false },
  },
})
if (values.version) {
  console.log(`Firecracker v${config.version}\n`)
  process.exit(0)
}

const root = values['double-root']
/** The host’s path of a path in the jail. A relative one counts from the jail’s root. */
const inJail = (path: string): string => join(root, resolve('/', path))
const MAGIC = 'cofferdam-double-snapshot'
const OWN_STATE = '/double-state'
const MiB = 1_048_576
/**
 * Always emulates (tcg), because the double isolates nothing and emulation works on every host. QEMU opens
 * the memory of a template for writing, which only root may.
 */
const QEMU = { binary: 'qemu-system-x86_64', accelerator: 'tcg', uid: 0 } as const

async function makeGuest(): Promise<Guest> {
  const { machines, agent, bootMs } = config
  if (machines === null) return createProcessGuest({ agent, bootMs: config.faults.mute ? 3_600_000 : bootMs })
  const { createQemuEngine } = await import('../../../libs/backends/microvm/src/qemu/index.ts')
  const engine = await createQemuEngine(QEMU)
  return createMachineGuest(engine, machines, root, () => process.exit(0))
}
const guest = await makeGuest()
let log: WriteStream | null = null
let vsock: VsockListener | null = null

const reason = (error: unknown): string =>
  error instanceof Error ? `${error.message} (os error)` : String(error)
const tried = async (work: () => Promise<unknown>): Promise<string | null> => {
  try {
    await work()
    return null
  } catch (error) {
    return reason(error)
  }
}

const underneath: Underneath = {
  opensForReading: (path) => tried(async () => (await open(inJail(path), 'r')).close()),
  // src/vmm/src/utils/mod.rs, open_file_nonblock
  opensLog: (path) =>
    tried(async () => {
      const fd = openSync(inJail(path), constants.O_RDWR | constants.O_NONBLOCK | constants.O_CREAT)
      log = createWriteStream('', { fd })
      log.on('error', () => {})
      log.write(`Running Firecracker v${config.version} (double)\n`)
    }),
  async bindsVsock(path) {
    vsock?.close()
    const bound = await listenVsock(inJail(path), guest, config.faults.vsock)
    if (typeof bound === 'string') return bound
    vsock = bound
    return null
  },
  boots: (machine) => tried(() => guest.boot(machine)),
  pauses: async () => guest.pause(),
  resumes: async () => guest.resume(),
  // The state file has one line about the machine, then the guest's own state.
  saves: (state, memory, machine) =>
    tried(async () => {
      await guest.save(inJail(OWN_STATE), inJail(memory), machine)
      const head = Buffer.from(`${JSON.stringify({ magic: MAGIC, machine })}\n`)
      await writeFile(inJail(state), Buffer.concat([head, await readFile(inJail(OWN_STATE))]))
    }),
  async loads(state, memory) {
    try {
      const bytes = await readFile(inJail(state))
      const end = bytes.indexOf(0x0a)
      const saved = JSON.parse(bytes.toString('utf8', 0, Math.max(0, end))) as {
        magic?: string
        machine: MachineConfig
      }
      if (saved.magic !== MAGIC) return 'no snapshot'
      if ((await stat(inJail(memory))).size !== saved.machine.memoryMib * MiB)
        return 'Failed to load guest memory: file too short'
      await writeFile(inJail(OWN_STATE), bytes.subarray(end + 1))
      await guest.load(inJail(OWN_STATE), inJail(memory), saved.machine)
      return saved.machine
    } catch (error) {
      return `Failed to get snapshot state from file: ${reason(error)}`
    }
  },
}
const vmm = createVmm({ id: values.id, version: config.version }, underneath)

function send(response: ServerResponse, { status, body, ends }: Answer): void {
  const text = body === null ? '' : JSON.stringify(body)
  response.writeHead(status, {
    server: 'Firecracker API',
    ...(text === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  })
  response.end(text, () => {
    if (ends === true) process.exit(1)
  })
}

function misbehave(response: ServerResponse, fault: ApiFault): void {
  switch (fault) {
    case '400':
    case '500':
      return send(response, { status: Number(fault), body: { fault_message: 'asked for by the test' } })
    case 'die':
      return process.exit(139)
    case 'hang':
      return
    case 'close':
      return void response.socket?.end('HTTP/1.1 204 No Con')
    case 'junk':
      return void response.socket?.end('\u0000\u0001 junk\r\n\r\n')
  }
}

// One request at a time, whatever the client does: src/firecracker/src/api_server/mod.rs.
let turn: Promise<void> = Promise.resolve()
const server = createServer((incoming: IncomingMessage, response) => {
  turn = turn.then(async () => {
    let text = ''
    for await (const chunk of incoming) text += String(chunk)
    const { method = '', url = '' } = incoming
    const said = `${method} ${url}`
    const fault = config.faults.api[said]
    if (fault !== undefined) return misbehave(response, fault)
    const answer = await vmm.handle(method, url, text)
    if (config.record !== null)
      appendFileSync(
        config.record,
        `${JSON.stringify({ id: values.id, call: said, text, status: answer.status })}\n`,
      )
    log?.write(`${said}: ${answer.status}\n`)
    send(response, answer)
  })
})
server.on('error', (error) => {
  console.error(`Error: RunWithApi(FailedToBindSocket(${reason(error)}))`)
  process.exit(1)
})
server.listen(inJail(values['api-sock']))
process.once('exit', () => guest.end())
