/**
 * The image’s initramfs for a machine without a vsock device: a second archive behind it, which the kernel
 * unpacks as well. It has the bridge, and a script that runs before the image’s own.
 */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { cpio } from '../../images/microvm/initramfs.ts'

const BRIDGE = fileURLToPath(new URL('guest/serial_bridge.py', import.meta.url))

/** For the kernel’s command line. */
export const BRIDGE_ARGUMENT = 'rdinit=/bridge'

/** The order in which they need each other. The image’s script finds the first two loaded. */
const SCRIPT = `#!/bin/busybox sh
b=/bin/busybox
for name in vsock vmw_vsock_virtio_transport_common vsock_loopback; do $b insmod /modules/$name.ko; done
$b cat /serial_bridge.py /vm_init.py >/both.py
$b mv /both.py /vm_init.py
exec /init
`

/** `initramfs`: the file of the image. */
export async function withBridge(initramfs: string): Promise<Buffer> {
  const more = cpio([
    { path: 'bridge', mode: 0o100755, bytes: Buffer.from(SCRIPT) },
    { path: 'serial_bridge.py', mode: 0o100644, bytes: readFileSync(BRIDGE) },
  ])
  return Buffer.concat([await readFile(initramfs), more])
}
