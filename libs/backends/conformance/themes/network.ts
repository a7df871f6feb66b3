/** `network: none` reaches nothing: not the host, not the neighbours, not the metadata service. */
import { createServer, type AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function network(h: Harness): void {
  const { connect } = h.programs
  if (connect === undefined || !h.capabilities.network.includes('none')) return

  test('reaches nothing with network none', async () => {
    let reached = 0
    const server = createServer((socket) => {
      reached += 1
      socket.destroy()
    })
    const listening = Promise.withResolvers<void>()
    server.listen(0, '0.0.0.0', listening.resolve)
    await listening.promise
    try {
      const { port } = server.address() as AddressInfo
      const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
      const targets: [string, number][] = own
        .filter((address) => address.family === 'IPv4')
        .slice(0, 4)
        .map((address) => [address.address, port])
      targets.push(['169.254.169.254', 80], ['1.1.1.1', 53], ['::1', port], ['localhost', port])
      const { stdout } = await h.once(connect(targets), { network: 'none' })
      expect(stdout.toString().trim().split('\n')).toEqual(targets.map(() => 'refused'))
      expect(reached).toBe(0)
    } finally {
      server.close()
    }
  })
}
