/** How the server introduces itself. */
import workspace from '../../package.json' with { type: 'json' }

export const SERVER_INFO = { name: 'cofferdam', title: 'Cofferdam', version: workspace.version }
