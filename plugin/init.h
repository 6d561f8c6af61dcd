// What happens when NCCL makes a communicator: start the recorder if need be, note who we are, ask for events.
// Called from every table's init, on any thread, several at once; the only place of the plugin that allocates, logs
// or waits.
#ifndef RANKSCOPE_PLUGIN_INIT_H_
#define RANKSCOPE_PLUGIN_INIT_H_

#include "plugin/communicators.h"

namespace rankscope::plugin {

// Always 0 (success), and *context is never NULL afterwards.
int OpenCommunicator(int api_version, void** context, int* activation_mask, const CommunicatorIdentity& identity);

// True where the v4 table is driven by NCCL 2.28 or newer, whose adapter leaves P2p's number of channels unset.
bool P2pChannelsAreGarbage();

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_INIT_H_
