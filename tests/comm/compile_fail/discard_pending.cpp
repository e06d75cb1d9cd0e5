#include "ringshard/comm/communicator.hpp"

void wait(ringshard::comm::Communicator& communicator, at::Tensor& tensor) {
    communicator.all_reduce(tensor);
}
