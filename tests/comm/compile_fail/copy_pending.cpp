#include "ringshard/comm/communicator.hpp"

void wait(ringshard::comm::Communicator& communicator, at::Tensor& tensor) {
    ringshard::comm::Pending pending = communicator.all_reduce(tensor);
    ringshard::comm::Pending copy = pending;
    copy.wait();
}
