/** Shared by all vendors' doubles: a jail for sandboxes, a server, and checks of answers. */
export { missing, NODE, SOCKET, startJail, type Jail, type JailOptions } from './jail.ts'
export { filesOf, listen, mirrorArguments, type MirrorServer, type ServerTls } from './mirror-server.ts'
export { createPublished, faultOf, type Operation, type Published } from './published.ts'
